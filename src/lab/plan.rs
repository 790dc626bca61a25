//! From a program and a grid to what is run once: one table and one view, under the least delay and the longest reach.

use super::blocks::Slots;
use super::grid::Grid;
use super::recommend::RecommendPlan;
use super::recommend::condition::Condition;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::expr::build::did_you_mean;
use crate::plan::{LateRecords, Program, TablePlan, ViewKind, ViewPlan, WindowedPlan};
use crate::sql::with_policy;
use crate::watermark::policy::PolicyPlan;
use std::sync::Arc;

/// The most policies that are held beside a grid.
pub const POLICIES_MAX: usize = 16;

/// What the lab runs in one pass: a grid, and policies beside it, each with a table, a view and a watermark of its own over
/// the one input.
#[derive(Clone, Debug)]
pub struct LabSet {
    /// The grid, then the policies.
    pub plans: Vec<Arc<LabPlan>>,
    /// All their tables and views, in the same order.
    pub program: Arc<Program>,
    /// A program of one table and all that is to be read of it.
    pub reading: Arc<Program>,
}

impl LabSet {
    /// Plans the pass. A policy that the table declares is held beside the grid as well.
    ///
    /// # Errors
    /// As [`LabPlan::new`]; and when there are too many policies, or one does not fit the table.
    pub fn new(program: &Program, settings: &LabSettings) -> Result<LabSet> {
        let grid = LabPlan::new(program, settings)?;
        let mut policies: Vec<PolicyPlan> = Vec::new();
        let view = find(program, settings.view.as_deref())?;
        let declared =
            program.tables.get(view.table).and_then(|table| table.policy.as_ref()).map(|policy| &policy.plan);
        for policy in declared.into_iter().chain(&settings.policies) {
            if !policies.contains(policy) {
                policies.push(policy.clone());
            }
        }
        if policies.len() > POLICIES_MAX {
            let message = format!("--policy: expected at most {POLICIES_MAX} policies, found {}", policies.len());
            return Err(
                Error::usage(message).with_hint("each is a pass of its own over the records, beside the grid's")
            );
        }
        let mut plans = vec![Arc::new(grid)];
        for policy in policies {
            plans.push(Arc::new(LabPlan::under(program, settings, policy)?));
        }
        let tables: Vec<TablePlan> = plans.iter().flat_map(|plan| plan.table().cloned()).collect();
        let views = plans.iter().flat_map(|plan| plan.program.views.iter());
        let views = views.enumerate().map(|(table, view)| ViewPlan { table, ..view.clone() }).collect();
        let first = plans.first().map(|plan| (*plan.program).clone());
        let mut reading = first.unwrap_or_else(|| program.clone());
        reading.views.extend(plans.iter().flat_map(|plan| plan.looked_at()));
        let program = Program { tables, views, sinks: Vec::new(), warnings: program.warnings.clone() };
        Ok(LabSet { plans, program: Arc::new(program), reading: Arc::new(reading) })
    }
}

/// What one table and view of the lab runs.
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
    /// The policy that stands in the place of the grid's delays, of which there is one then.
    pub policy: Option<PolicyPlan>,
    /// How event time is cut into blocks.
    pub slots: Slots,
    /// What a setting is to hold that is recommended.
    pub recommend: Option<RecommendPlan>,
    /// Delays and horizons of keyed watermarks, to hold beside the grid.
    pub keyed: Option<Arc<Grid>>,
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
    /// Policies to hold beside the grid.
    pub policies: Vec<PolicyPlan>,
    /// Delays of keyed watermarks, µs; empty: those of the grid.
    pub keyed_us: Option<Vec<i64>>,
    /// Conditions on a setting to recommend; none: nothing is recommended.
    pub recommend: Vec<Condition>,
}

impl LabPlan {
    /// Plans the pass.
    ///
    /// # Errors
    /// When the grid is wrong, the view is not known or has no windows, or its table has no watermark, judges late records by
    /// event time, or lacks arrival times that are asked for.
    pub fn new(program: &Program, settings: &LabSettings) -> Result<LabPlan> {
        Self::planned(program, settings, None)
    }

    /// Plans one policy in the place of the grid's delays.
    ///
    /// # Errors
    /// As [`LabPlan::new`]; and when the table has no fixed delay to begin with, or not the column that the policy looks at.
    pub fn under(program: &Program, settings: &LabSettings, policy: PolicyPlan) -> Result<LabPlan> {
        Self::planned(program, settings, Some(policy))
    }

    fn planned(program: &Program, settings: &LabSettings, policy: Option<PolicyPlan>) -> Result<LabPlan> {
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
        check_conditions(settings, view, windowed)?;
        let horizons_us = settings.horizons_us.clone().unwrap_or_else(|| match view.horizon_us {
            Some(horizon_us) => vec![None, Some(horizon_us)],
            None => vec![None],
        });
        let keyed = match settings.keyed_us.as_ref().filter(|_| policy.is_none()) {
            Some(delays_us) => Some(Arc::new(keyed(settings, delays_us, &horizons_us, (table, windowed))?)),
            None => None,
        };
        // Under a policy stamps are what they are.
        let delays_us = if policy.is_some() { vec![0] } else { settings.delays_us.clone() };
        let grid = Grid::new(delays_us, horizons_us, table.granularity_us, settings.unbounded)
            .map_err(|message| Error::usage(message).with_hint(HINT))?;
        let under = match &policy {
            Some(_) => with_policy(table, policy.as_ref())?,
            None => TablePlan { delay_us: Some(grid.base_us()), policy: None, ..table.clone() },
        };
        let program = Program {
            tables: vec![TablePlan { granularity_us: 1, rejects: None, ..under }],
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
            slots: Slots::new(&windowed.window),
            recommend: recommended(settings, windowed).filter(|_| policy.is_none()),
            policy,
            keyed,
        })
    }

    /// The column that the policy looks at, as a view, so that it is read.
    fn looked_at(&self) -> Option<ViewPlan> {
        let table = self.table()?;
        let column = table.policy.as_ref()?.column?;
        let dtype = table.columns.get(column)?.dtype.clone();
        let kind = ViewKind::PassThrough(vec![Expr::column(column, dtype)]);
        self.program.views.first().map(|view| ViewPlan { kind, filter: None, ..view.clone() })
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

/// The grid of keyed watermarks.
fn keyed(
    settings: &LabSettings,
    delays_us: &[i64],
    horizons_us: &[Option<i64>],
    (table, windowed): (&TablePlan, &WindowedPlan),
) -> Result<Grid> {
    if windowed.group.is_empty() {
        return Err(Error::usage("--policy keyed: the view has no keys")
            .with_hint("keyed watermarks are one for each key: GROUP BY a column beside the window"));
    }
    let delays_us = if delays_us.is_empty() { settings.delays_us.clone() } else { delays_us.to_vec() };
    Grid::new(delays_us, horizons_us.to_vec(), table.granularity_us, false)
        .map_err(|message| Error::usage(format!("--policy keyed: {message}")).with_hint(HINT))
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

fn recommended(settings: &LabSettings, windowed: &WindowedPlan) -> Option<RecommendPlan> {
    let conditions = settings.recommend.clone();
    (!conditions.is_empty()).then(|| RecommendPlan { conditions, slots: Slots::new(&windowed.window) })
}

/// Conditions on errors are about columns that are measured.
fn check_conditions(settings: &LabSettings, view: &ViewPlan, windowed: &WindowedPlan) -> Result<()> {
    let measured = super::pairs::measured(view, windowed);
    let names: Vec<&str> =
        measured.iter().filter_map(|at| view.output.get(*at)).map(|(name, _)| name.as_str()).collect();
    for condition in &settings.recommend {
        let Condition::FirstResultError(column, _) = condition else { continue };
        if names.is_empty() {
            return Err(Error::usage("--recommend: first_result_error: the view has no columns that are numbers")
                .with_hint("measured are numbers and intervals that depend on an aggregate"));
        }
        if let Some(column) = column.as_deref().filter(|column| !names.contains(column)) {
            let error = Error::usage(format!("--recommend: expected a measured column, found '{column}'"));
            return Err(match did_you_mean(column, names.iter().copied()) {
                Some(near) => error.with_hint(format!("did you mean \"{near}\"?")),
                None => error.with_hint(format!("measured columns: {}", names.join(", "))),
            });
        }
    }
    Ok(())
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
