//! From a program and a grid to what is run once: one table and one view, under the least delay and the longest reach.

use super::grid::Grid;
use crate::error::{Error, Result};
use crate::expr::build::did_you_mean;
use crate::plan::{LateRecords, Program, TablePlan, ViewKind, ViewPlan, WindowedPlan};
use std::sync::Arc;

/// What the lab runs.
#[derive(Clone, Debug)]
pub struct LabPlan {
    /// One table, one view, nothing that is written.
    pub program: Arc<Program>,
    /// The grid.
    pub grid: Arc<Grid>,
    /// The delay that the table declares, µs; `None`: an expression that is not a fixed delay.
    pub declared_delay_us: Option<i64>,
    /// The horizon that the view declares, µs.
    pub declared_horizon_us: Option<i64>,
    /// Whether result latencies are in arrival time; else in event time.
    pub arrival: bool,
}

/// What is asked of the lab.
#[derive(Clone, Debug, Default)]
pub struct LabSettings {
    /// The view; may be left out if there is only one with windows.
    pub view: Option<String>,
    /// Delays, µs.
    pub delays_us: Vec<i64>,
    /// Horizons, µs; `None`: none, and the view's own.
    pub horizons_us: Option<Vec<Option<i64>>>,
    /// Every record that was read is the truth, however late.
    pub unbounded: bool,
    /// Result latencies in arrival time (`true`) or event time; `None`: in arrival time if the table has it.
    pub arrival: Option<bool>,
}

impl LabPlan {
    /// Plans the pass.
    ///
    /// # Errors
    /// When the grid is wrong, the view is not known or has no windows, or its table has no watermark, judges late records by
    /// event time, or lacks arrival times that are asked for.
    pub fn new(program: &Program, settings: &LabSettings) -> Result<LabPlan> {
        let view = find(program, settings.view.as_deref())?;
        let name = view.name.clone().unwrap_or_else(|| "the SELECT".to_owned());
        let ViewKind::Windowed(windowed) = &view.kind else {
            return Err(Error::usage(format!("{name} has no windows, so no record of it is ever late"))
                .with_hint("the lab is for views with TUMBLE or HOP"));
        };
        let Some(table) = program.tables.get(view.table) else {
            return Err(Error::usage(format!("{name} reads no table")));
        };
        check(table, settings)?;
        let horizons_us = settings.horizons_us.clone().unwrap_or_else(|| match view.horizon_us {
            Some(horizon_us) => vec![None, Some(horizon_us)],
            None => vec![None],
        });
        let grid = Grid::new(settings.delays_us.clone(), horizons_us, table.granularity_us, settings.unbounded)
            .map_err(|message| Error::usage(message).with_hint(HINT))?;
        let program = Program {
            tables: vec![TablePlan {
                delay_us: Some(grid.base_us()),
                policy: None,
                granularity_us: 1,
                rejects: None,
                ..table.clone()
            }],
            views: vec![ViewPlan {
                table: 0,
                kind: ViewKind::Windowed(WindowedPlan { first_stamp: true, ..windowed.clone() }),
                horizon_us: Some(grid.reach_us()),
                late: None,
                ..view.clone()
            }],
            sinks: Vec::new(),
            warnings: program.warnings.clone(),
        };
        Ok(LabPlan {
            program: Arc::new(program),
            grid: Arc::new(grid),
            declared_delay_us: table.delay_us,
            declared_horizon_us: view.horizon_us,
            arrival: settings.arrival.unwrap_or(table.arrival_time.is_some()),
        })
    }

    /// The table that is read.
    pub fn table(&self) -> Option<&TablePlan> {
        self.program.tables.first()
    }

    /// The view, and its windows.
    pub fn view(&self) -> Option<(&ViewPlan, &WindowedPlan)> {
        let view = self.program.views.first()?;
        let ViewKind::Windowed(windowed) = &view.kind else { return None };
        Some((view, windowed))
    }
}

/// How grids are written.
pub const HINT: &str = "write --delays 0s,1s,5s or 0s..5m/20 (20 equal steps), --horizons none,0s,1m";

pub(super) fn find<'a>(program: &'a Program, name: Option<&str>) -> Result<&'a ViewPlan> {
    let windowed: Vec<&ViewPlan> =
        program.views.iter().filter(|view| matches!(view.kind, ViewKind::Windowed(_))).collect();
    let names = || windowed.iter().filter_map(|view| view.name.as_deref()).collect::<Vec<_>>().join(", ");
    let Some(name) = name else {
        return match windowed.as_slice() {
            [only] => Ok(only),
            [] => Err(Error::usage("the program has no view with windows, so no record is ever late")
                .with_hint("the lab is for SELECT … FROM TUMBLE(…) or HOP(…)")),
            several => Err(Error::usage(format!("--view: expected the name of one of {} views", several.len()))
                .with_hint(format!("views with windows: {}", names()))),
        };
    };
    let same = |view: &&ViewPlan| view.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name));
    program.views.iter().find(same).ok_or_else(|| {
        let known: Vec<&str> = program.views.iter().filter_map(|view| view.name.as_deref()).collect();
        let error = Error::usage(format!("--view: there is no view \"{name}\""));
        match did_you_mean(name, known.iter().copied()) {
            Some(near) => error.with_hint(format!("is it \"{near}\"?")),
            None => error.with_hint(format!("views with windows: {}", names())),
        }
    })
}

fn check(table: &TablePlan, settings: &LabSettings) -> Result<()> {
    let name = &table.name;
    if table.event_time.is_none() {
        return Err(Error::usage(format!("table \"{name}\" has no watermark, so no record of it is ever late"))
            .with_hint("declare WATERMARK FOR event_time AS event_time - INTERVAL '10 seconds'"));
    }
    if table.late_records == LateRecords::Drop {
        return Err(Error::usage(format!(
            "table \"{name}\" has late_records = 'drop': late records correct nothing, whatever the horizon"
        ))
        .with_hint("leave the option out to have them judged by window"));
    }
    if settings.arrival == Some(true) && table.arrival_time.is_none() {
        return Err(Error::usage(format!("--latency arrival: table \"{name}\" has no arrival times"))
            .with_hint("declare the column: WITH (arrival_time = 'received_at', …); or --latency event"));
    }
    Ok(())
}
