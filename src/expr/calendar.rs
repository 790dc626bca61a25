//! Fields of times in the proleptic Gregorian calendar, UTC, for every 64-bit microsecond.
//!
//! Years are counted astronomically (year 0 is 1 BC). The conversion between days and dates is the usual one by
//! 400-year eras starting on 1 March, so that leap days come last.

use super::TimeUnit;

/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;
/// Greatest distance from 1970, in days, whose midnight is a TIMESTAMP: the range of DATE.
pub const MAX_DAYS: i64 = i64::MAX / DAY_US;

const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_MARCH_0: i64 = 719_468;

/// Year, month (1–12) and day (1–31) of a day since 1970.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(EPOCH_FROM_MARCH_0);
    let (era, of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Days since 1970 of a date.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - EPOCH_FROM_MARCH_0
}

/// The Monday at or before a day since 1970 (a Thursday).
fn monday(days: i64) -> i64 {
    days - (days + 3).rem_euclid(7)
}

/// The start of the unit that contains `us`; `None` below the 64-bit range, and for fields that are no units.
pub fn truncate(unit: TimeUnit, us: i64) -> Option<i64> {
    let floor = |step: i64| us.checked_sub(us.rem_euclid(step));
    let days = us.div_euclid(DAY_US);
    let day = match unit {
        TimeUnit::Microsecond => return Some(us),
        TimeUnit::Millisecond => return floor(1_000),
        TimeUnit::Second => return floor(1_000_000),
        TimeUnit::Minute => return floor(60_000_000),
        TimeUnit::Hour => return floor(3_600_000_000),
        TimeUnit::Day => days,
        TimeUnit::Week => monday(days),
        TimeUnit::Month | TimeUnit::Quarter | TimeUnit::Year => {
            let (year, month, _) = civil_from_days(days);
            let month = match unit {
                TimeUnit::Month => month,
                TimeUnit::Quarter => (month - 1) / 3 * 3 + 1,
                _ => 1,
            };
            days_from_civil(year, month, 1)
        }
        TimeUnit::DayOfWeek | TimeUnit::IsoDayOfWeek | TimeUnit::DayOfYear | TimeUnit::Epoch => return None,
    };
    day.checked_mul(DAY_US)
}

/// The field of a time. `Second` and `Epoch` in microseconds (that is, unscaled at scale 6); `Millisecond` and
/// `Microsecond` count from the start of the minute, as in PostgreSQL; `Week` is the ISO week.
pub fn field(unit: TimeUnit, us: i64) -> i64 {
    let days = us.div_euclid(DAY_US);
    let of_day = us.rem_euclid(DAY_US);
    match unit {
        TimeUnit::Microsecond | TimeUnit::Second => of_day % 60_000_000,
        TimeUnit::Millisecond => of_day % 60_000_000 / 1_000,
        TimeUnit::Minute => of_day / 60_000_000 % 60,
        TimeUnit::Hour => of_day / 3_600_000_000,
        TimeUnit::Day => civil_from_days(days).2,
        TimeUnit::Week => {
            // A week belongs to the year of its Thursday.
            let thursday = monday(days) + 3;
            (thursday - days_from_civil(civil_from_days(thursday).0, 1, 1)) / 7 + 1
        }
        TimeUnit::Month => civil_from_days(days).1,
        TimeUnit::Quarter => (civil_from_days(days).1 + 2) / 3,
        TimeUnit::Year => civil_from_days(days).0,
        TimeUnit::DayOfWeek => (days + 4).rem_euclid(7),
        TimeUnit::IsoDayOfWeek => days - monday(days) + 1,
        TimeUnit::DayOfYear => days - days_from_civil(civil_from_days(days).0, 1, 1) + 1,
        TimeUnit::Epoch => us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: i64, month: i64, day: i64) -> i64 {
        days_from_civil(year, month, day) * DAY_US
    }

    #[test]
    fn dates_round_trip_and_follow_each_other() {
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(civil_from_days(-1), (1969, 12, 31));
        assert_eq!(days_from_civil(2000, 3, 1) - days_from_civil(2000, 2, 28), 2);
        assert_eq!(days_from_civil(1900, 3, 1) - days_from_civil(1900, 2, 28), 1);
        let first = days_from_civil(-401, 1, 1);
        let mut before = (-402, 12, 31);
        for days in first..first + 900 * 366 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            let next_day = (year, month, day) == (before.0, before.1, before.2 + 1);
            let next_month = day == 1 && (year, month) == (before.0, before.1 + 1);
            let next_year = (month, day) == (1, 1) && year == before.0 + 1;
            assert!(next_day || next_month || next_year, "{before:?} then {:?}", (year, month, day));
            before = (year, month, day);
        }
    }

    #[test]
    fn fields_and_units() {
        let t = at(2026, 1, 1) + 13 * 3_600_000_000 + 61_234_567;
        assert_eq!(field(TimeUnit::Hour, t), 13);
        assert_eq!(field(TimeUnit::Minute, t), 1);
        assert_eq!(field(TimeUnit::Second, t), 1_234_567);
        assert_eq!(field(TimeUnit::Millisecond, t), 1_234);
        assert_eq!(field(TimeUnit::Microsecond, t), 1_234_567);
        assert_eq!(field(TimeUnit::DayOfWeek, t), 4);
        assert_eq!(field(TimeUnit::IsoDayOfWeek, at(2026, 1, 4)), 7);
        assert_eq!(field(TimeUnit::DayOfWeek, at(2026, 1, 4)), 0);
        assert_eq!(field(TimeUnit::Week, t), 1);
        assert_eq!(field(TimeUnit::Week, at(2027, 1, 1)), 53);
        assert_eq!(field(TimeUnit::Week, at(2024, 12, 30)), 1);
        assert_eq!(field(TimeUnit::DayOfYear, at(2024, 12, 31)), 366);
        assert_eq!(field(TimeUnit::Quarter, at(2024, 12, 31)), 4);
        assert_eq!(field(TimeUnit::Hour, -1), 23);
        assert_eq!(truncate(TimeUnit::Week, at(1970, 1, 1)), Some(at(1969, 12, 29)));
        assert_eq!(truncate(TimeUnit::Quarter, at(2024, 6, 30)), Some(at(2024, 4, 1)));
        assert_eq!(truncate(TimeUnit::Year, -1), Some(at(1969, 1, 1)));
        assert_eq!(truncate(TimeUnit::Millisecond, -1), Some(-1_000));
        assert_eq!(truncate(TimeUnit::Year, i64::MIN), None);
        assert_eq!(truncate(TimeUnit::Epoch, 0), None);
        for unit in [TimeUnit::Week, TimeUnit::Year, TimeUnit::DayOfYear, TimeUnit::Day] {
            field(unit, i64::MIN);
            field(unit, i64::MAX);
        }
    }
}
