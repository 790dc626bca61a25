//! Where a benchmark runs, as far as the system tells.

use crate::bench::report::Machine;

/// Looks at the machine.
pub(super) fn look() -> Machine {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Machine {
        cpu: std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu_model(&text)),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        system: format!("{} {} {}", text(uname.sysname()), text(uname.release()), text(uname.machine())),
        load_before: std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| first_number(&text)),
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"))?;
    let model = line.trim_start().strip_prefix(':')?.trim();
    (!model.is_empty()).then(|| model.to_owned())
}

fn first_number(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let cpuinfo = "processor\t: 0\nvendor_id\t: X\nmodel name\t: Some CPU @ 2 GHz\nflags\t: a b\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(cpu_model("processor : 0\n"), None);
        assert_eq!(first_number("0.52 0.84 1.82 1/200 77\n"), Some(0.52));
        assert_eq!(first_number(""), None);
        let machine = look();
        assert!(machine.cores > 0 && !machine.system.is_empty(), "{machine:?}");
    }
}
