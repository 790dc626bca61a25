//! Units and fields of times, by counting through the calendar year by year within an era of 400.

use crate::expr::TimeUnit;

const DAY_US: i64 = 86_400_000_000;
/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-01-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_528;

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A day in the calendar.
#[derive(Clone, Copy)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
    /// Day of the year, from 0.
    of_year: i64,
}

fn date(days: i64) -> Date {
    let since_zero = days.saturating_add(EPOCH_DAYS);
    let mut year = since_zero.div_euclid(ERA_DAYS) * 400;
    let mut rest = since_zero.rem_euclid(ERA_DAYS);
    while rest >= 365 + i64::from(is_leap(year)) {
        rest -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let of_year = rest;
    let mut month = 1;
    while rest >= month_days(year, month) {
        rest -= month_days(year, month);
        month += 1;
    }
    Date { year, month, day: rest + 1, of_year }
}

/// Days since the Monday of the week, from 0.
fn since_monday(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days.rem_euclid(7) + 3) % 7
}

/// The start of the unit that contains `us`; `None` below 64 bits, and for fields that are no units.
pub fn truncate(unit: TimeUnit, us: i64) -> Option<i64> {
    let days = us.div_euclid(DAY_US);
    let d = date(days);
    // How far back the start lies: days, or microseconds of the day.
    let back_days = match unit {
        TimeUnit::Day => 0,
        TimeUnit::Week => since_monday(days),
        TimeUnit::Month => d.day - 1,
        TimeUnit::Quarter => {
            let first = d.month - (d.month - 1) % 3;
            d.day - 1 + (first..d.month).map(|month| month_days(d.year, month)).sum::<i64>()
        }
        TimeUnit::Year => d.of_year,
        TimeUnit::DayOfWeek | TimeUnit::IsoDayOfWeek | TimeUnit::DayOfYear | TimeUnit::Epoch => return None,
        TimeUnit::Microsecond | TimeUnit::Millisecond | TimeUnit::Second | TimeUnit::Minute | TimeUnit::Hour => {
            let length = match unit {
                TimeUnit::Hour => 3_600_000_000,
                TimeUnit::Minute => 60_000_000,
                TimeUnit::Second => 1_000_000,
                TimeUnit::Millisecond => 1_000,
                _ => 1,
            };
            return us.checked_sub(us.rem_euclid(length));
        }
    };
    (days - back_days).checked_mul(DAY_US)
}

/// A field of a time; seconds and the epoch in microseconds, milli- and microseconds from the start of the minute.
pub fn field(unit: TimeUnit, us: i64) -> i64 {
    let days = us.div_euclid(DAY_US);
    let d = date(days);
    let of_minute = us.rem_euclid(60_000_000);
    match unit {
        TimeUnit::Microsecond | TimeUnit::Second => of_minute,
        TimeUnit::Millisecond => of_minute / 1_000,
        TimeUnit::Minute => us.rem_euclid(3_600_000_000) / 60_000_000,
        TimeUnit::Hour => us.rem_euclid(DAY_US) / 3_600_000_000,
        TimeUnit::Day => d.day,
        // The week has the number of its Thursday, counted in the Thursday's year.
        TimeUnit::Week => date(days - since_monday(days) + 3).of_year / 7 + 1,
        TimeUnit::Month => d.month,
        TimeUnit::Quarter => (d.month + 2) / 3,
        TimeUnit::Year => d.year,
        TimeUnit::DayOfWeek => (since_monday(days) + 1) % 7,
        TimeUnit::IsoDayOfWeek => since_monday(days) + 1,
        TimeUnit::DayOfYear => d.of_year + 1,
        TimeUnit::Epoch => us,
    }
}

/// The start of the bucket of length `stride_us > 0`, counted from `origin_us`; `None` below 64 bits.
pub fn bin(stride_us: i64, us: i64, origin_us: i64) -> Option<i64> {
    let (stride, us, origin) = (i128::from(stride_us), i128::from(us), i128::from(origin_us));
    i64::try_from(origin + (us - origin).div_euclid(stride.max(1)) * stride).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        let at = |days: i64| days * DAY_US;
        let known =
            [(0, 1970, 1, 1), (-1, 1969, 12, 31), (11_016, 2000, 2, 29), (-719_528, 0, 1, 1), (20_454, 2026, 1, 1)];
        for (days, year, month, day) in known {
            let t = at(days) + 5;
            let found = [TimeUnit::Year, TimeUnit::Month, TimeUnit::Day].map(|u| field(u, t));
            assert_eq!(found, [year, month, day]);
        }
        assert_eq!(field(TimeUnit::Week, at(20_454)), 1);
        assert_eq!(field(TimeUnit::Week, at(20_454 + 365)), 53, "2027-01-01");
        assert_eq!(field(TimeUnit::DayOfWeek, at(3)), 0, "1970-01-04 was a Sunday");
        assert_eq!(field(TimeUnit::IsoDayOfWeek, at(3)), 7);
        assert_eq!(truncate(TimeUnit::Week, at(0)), Some(at(-3)));
        assert_eq!(truncate(TimeUnit::Year, -1), Some(at(-365)));
        assert_eq!(truncate(TimeUnit::Quarter, at(20_454) - 1), Some(at(20_454 - 92)));
        assert_eq!(truncate(TimeUnit::Year, i64::MIN), None);
        assert_eq!(bin(10, -1, 3), Some(-7));
        for unit in [TimeUnit::Week, TimeUnit::Year, TimeUnit::DayOfYear] {
            field(unit, i64::MIN);
            field(unit, i64::MAX);
        }
    }
}
