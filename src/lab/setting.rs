//! Which view is asked, whether it can be, and the program that is run for it.

use super::accuracy::compared_columns;
use super::grid::Grid;
use super::tallies::Tallies;
use crate::error::{Error, Result};
use crate::plan::{LateRecords, Program, TablePlan, ViewKind, ViewPlan, WindowedPlan};

/// A view of a program and a grid to ask of it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The delays and horizons.
    pub grid: Grid,
    view: ViewPlan,
    table: TablePlan,
    plan: WindowedPlan,
}

impl Setting {
    /// For the windowed view called `name`, or for the only one there is. The delays and horizons are as [`Grid::parse`] reads
    /// them.
    ///
    /// # Errors
    /// When there is no such view, several could be meant, or it passes rows through; when its table has no watermark, one that is not
    /// a fixed delay, or `late_records = 'drop'`; and those of [`Grid::parse`].
    pub fn new(program: &Program, name: Option<&str>, delays: &str, horizons: &str) -> Result<Setting> {
        let view = choose(program, name)?;
        let called = called(view);
        let table = program.tables.get(view.table).ok_or_else(|| Error::usage("the view has no table"))?;
        if table.event_time.is_none() {
            return Err(Error::usage(format!(
                "{called} reads table \"{}\", which has no watermark: nothing is late",
                table.name
            ))
            .with_hint("declare one: WATERMARK FOR ts AS ts - INTERVAL '10 seconds'"));
        }
        let ViewKind::Windowed(plan) = &view.kind else {
            return Err(Error::usage(format!("{called} passes rows through: it has no windows that close"))
                .with_hint("name a view with TUMBLE or HOP"));
        };
        if table.delay_us.is_none() {
            let message =
                format!("table \"{}\": expected a watermark of a fixed delay, found an expression", table.name);
            return Err(Error::usage(message).with_hint("declare it as WATERMARK FOR ts AS ts - INTERVAL '10 seconds'"));
        }
        if table.late_records == LateRecords::Drop {
            let message =
                format!("table \"{}\" has late_records = 'drop', under which horizons mean nothing", table.name);
            return Err(Error::usage(message).with_hint("leave late_records out"));
        }
        let grid = Grid::parse(delays, horizons, table.granularity_us)?;
        Ok(Setting { grid, view: view.clone(), table: table.clone(), plan: plan.clone() })
    }

    /// The program that answers: the view alone, with the least delay, stamps exact to the microsecond, and a horizon that drops
    /// only what is too late in every cell.
    pub fn program(&self) -> Program {
        let mut table = self.table.clone();
        table.delay_us = Some(self.grid.least_delay_us());
        table.watermark = None;
        table.granularity_us = 1;
        let view = ViewPlan { table: 0, horizon_us: self.grid.reach_us(), late: None, ..self.view.clone() };
        Program { tables: vec![table], views: vec![view], sinks: Vec::new(), warnings: Vec::new() }
    }

    /// Nothing counted yet.
    pub fn tallies(&self) -> Tallies {
        Tallies::new(&self.grid, compared_columns(&self.plan, &self.view.output))
    }

    /// The windowed aggregation.
    pub fn plan(&self) -> &WindowedPlan {
        &self.plan
    }

    /// The view.
    pub fn view(&self) -> &ViewPlan {
        &self.view
    }

    /// The view's table, as declared.
    pub fn table(&self) -> &TablePlan {
        &self.table
    }

    /// The view in words.
    pub fn called(&self) -> String {
        called(&self.view)
    }
}

fn called(view: &ViewPlan) -> String {
    view.name.as_ref().map_or_else(|| "the SELECT".to_owned(), |name| format!("view \"{name}\""))
}

fn names<'a>(views: impl Iterator<Item = &'a ViewPlan>) -> String {
    let names: Vec<&str> = views.filter_map(|view| view.name.as_deref()).collect();
    names.join(", ")
}

fn choose<'a>(program: &'a Program, name: Option<&str>) -> Result<&'a ViewPlan> {
    let windowed = || program.views.iter().filter(|view| matches!(view.kind, ViewKind::Windowed(_)));
    if let Some(name) = name {
        let found = program.views.iter().find(|view| view.name.as_deref() == Some(name));
        return found.ok_or_else(|| {
            let known = names(program.views.iter());
            let hint =
                if known.is_empty() { "its views have no names".to_owned() } else { format!("there are: {known}") };
            Error::usage(format!("--view: the program has no view \"{name}\"")).with_hint(hint)
        });
    }
    let mut views = windowed();
    match (views.next(), views.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => match program.views.first() {
            // Says what is wrong with it.
            Some(view) => Ok(view),
            None => Err(Error::usage("the program has no view").with_hint("write a SELECT over TUMBLE or HOP")),
        },
        (Some(_), Some(_)) => {
            let hint = format!("name one with --view: {}", names(windowed()));
            Err(Error::usage("the program has several views with windows").with_hint(hint))
        }
    }
}
