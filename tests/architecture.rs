//! Invariants that can be read off the sources (see ARCHITECTURE.md).

use std::path::{Path, PathBuf};

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the source tree is readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Lines of code (comments aside) under `src` that contain one of `words`, outside `allowed` folders or files.
fn offenders(words: &[&str], allowed: &[&str]) -> Vec<String> {
    offenders_in("", words, allowed)
}

/// The same for files whose path below `src` begins with `folder`.
fn offenders_in(folder: &str, words: &[&str], allowed: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).expect("below src").to_string_lossy().replace('\\', "/");
        if !name.starts_with(folder)
            || allowed.iter().any(|a| name.starts_with(a))
            || name.ends_with("tests.rs")
            || name.contains("/tests/")
        {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("source text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            if words.iter().any(|w| line.contains(w)) {
                found.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn only_dataflow_and_the_transport_name_timely() {
    assert_eq!(
        offenders(&["timely::", "differential_dataflow"], &["dataflow/", "cluster/transport.rs"]),
        Vec::<String>::new()
    );
}

#[test]
fn only_the_command_line_and_the_network_read_a_clock() {
    assert_eq!(offenders(&["Instant::now", "SystemTime"], &["cli/", "cluster/mod.rs"]), Vec::<String>::new());
}

#[test]
fn the_pure_layers_do_no_io() {
    let network = ["hosts.rs", "secret.rs", "gate.rs", "start.rs", "mesh.rs", "link.rs", "watch.rs", "transport.rs"];
    let network: Vec<_> = network.iter().map(|file| format!("cluster/{file}")).collect();
    let mut impure = vec!["cli/", "source/", "sink/", "dataflow/", "verify/", "main.rs"];
    impure.extend(network.iter().map(String::as_str));
    assert_eq!(
        offenders(&["std::fs", "std::io", "std::net", "std::thread", "std::env"], &impure),
        Vec::<String>::new()
    );
}

#[test]
fn the_wire_knows_words_and_the_data_model_only() {
    let above = ["aggregate", "cli", "dataflow", "engine", "expr", "plan", "sink", "source", "sql", "verify"];
    let above: Vec<String> = above.iter().map(|module| format!("crate::{module}")).collect();
    let above: Vec<&str> = above.iter().map(String::as_str).chain(["serde", "bincode"]).collect();
    assert_eq!(offenders_in("wire/", &above, &[]), Vec::<String>::new());
}

#[test]
fn only_the_command_line_prints() {
    assert_eq!(offenders(&["println!", "print!(", "eprint!(", "dbg!("], &["cli/"]), Vec::<String>::new());
}

#[test]
fn nothing_is_left_undone() {
    assert_eq!(offenders(&["todo!(", "unimplemented!("], &[]), Vec::<String>::new());
}
