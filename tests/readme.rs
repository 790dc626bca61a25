//! What README.md, docs/ and examples/ show is what happens: their commands are run and compared byte for byte.
//!
//! In a `console` block, `$ ` starts a command, and what follows is its output: standard output, then, if it is shown,
//! standard error (seconds and rates aside, which differ from run to run). In a `sh` block only commands of
//! `slackwater` are run, and must succeed. All of one document run in order in one empty folder that has `examples/`.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    let mut out = vec![root().join("README.md"), root().join("examples/README.md")];
    let docs = std::fs::read_dir(root().join("docs")).expect("docs/");
    out.extend(docs.map(|entry| entry.expect("an entry").path()).filter(|p| p.extension().is_some_and(|e| e == "md")));
    out.sort();
    out
}

/// The fenced blocks of a document: language and text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(language) => {
                inside = true;
                out.push((language.trim().to_owned(), String::new()));
            }
            None if inside => {
                let block = &mut out.last_mut().expect("inside a block").1;
                block.push_str(line);
                block.push('\n');
            }
            None => {}
        }
    }
    assert!(!inside, "a block is not closed");
    out
}

/// The commands of a block with what they show, `None` if nothing is promised.
fn commands(language: &str, block: &str) -> Vec<(String, Option<String>)> {
    let mut out: Vec<(String, Option<String>)> = Vec::new();
    match language {
        "console" => {
            let mut open = false;
            for line in block.lines() {
                match (line.strip_prefix("$ "), out.last_mut()) {
                    (Some(command), _) => out.push((command.to_owned(), Some(String::new()))),
                    (None, Some((command, _))) if open => {
                        command.push('\n');
                        command.push_str(line);
                    }
                    (None, Some((_, Some(shown)))) => {
                        shown.push_str(line);
                        shown.push('\n');
                    }
                    _ => panic!("a console block starts with a command, found {line}"),
                }
                // A quote that is still open, or a backslash, continues the command.
                let (command, shown) = out.last().expect("a command");
                open =
                    shown.as_deref() == Some("") && (command.ends_with('\\') || command.matches('"').count() % 2 == 1);
            }
        }
        "sh" => out.extend(block.lines().map(|line| (line.to_owned(), None))),
        _ => {}
    }
    // What a fresh machine builds is built already.
    let cargo = "cargo run --release -- ";
    let ours = |command: &String| command.contains("slackwater ") || command.starts_with(cargo);
    out.retain(|(command, _)| language == "console" || (ours(command) && !command.starts_with("cargo install")));
    out.iter_mut().for_each(|(command, _)| *command = command.replace(cargo, "slackwater "));
    out
}

/// A text without what differs from run to run: ` in 0.17 s (9,776/s)`, ` in 0.17 s`.
fn timeless(text: &str) -> String {
    let line = |line: &str| match (line.find(" records in "), line.find(" · ")) {
        (Some(from), Some(to)) if line.starts_with("slackwater: ") => {
            format!("{} records in …{}", &line[..from], &line[to..])
        }
        _ => line.to_owned(),
    };
    text.lines().map(|l| line(l) + "\n").collect()
}

fn check(document: &Path) -> usize {
    let text = std::fs::read_to_string(document).expect("the document");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).expect("a link");
    let binaries = Path::new(env!("CARGO_BIN_EXE_slackwater")).parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut run = 0;
    for (command, shown) in blocks(&text).iter().flat_map(|(language, block)| commands(language, block)) {
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(folder.path())
            .env("PATH", format!("{binaries}:{path}"))
            .env_remove("SLACKWATER_LOG")
            .output()
            .expect("a shell");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let fails = shown.as_ref().is_some_and(|s| s.contains("error: "));
        assert_eq!(output.status.success(), !fails, "{}: {command}\n{stdout}{stderr}", document.display());
        if let Some(shown) = shown {
            let both = format!("{stdout}{}", timeless(&stderr));
            assert!(
                shown == stdout || timeless(&shown) == both,
                "{}: $ {command}\n--- shown\n{shown}--- found\n{stdout}{stderr}",
                document.display()
            );
        }
        run += 1;
    }
    run
}

#[test]
fn commands_do_what_the_documents_show() {
    let run: usize = documents().iter().map(|d| check(d)).sum();
    assert!(run >= 10, "only {run} commands were found");
}

/// The statements of a document's `sql` blocks, one after another, are a program.
#[test]
fn sql_in_the_documents_is_a_program() {
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("the document");
        let sql: String = blocks(&text).into_iter().filter(|b| b.0 == "sql").map(|b| b.1).collect();
        if sql.is_empty() {
            continue;
        }
        if let Err(error) = slackwater::sql::plan(&document.display().to_string(), &sql, &Default::default()) {
            panic!("{error}\n{}", error.detail().unwrap_or_default());
        }
    }
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    for document in documents().into_iter().chain(["ARCHITECTURE.md", "CHANGELOG.md"].map(|d| root().join(d))) {
        let text = std::fs::read_to_string(&document).expect("the document");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") {
                continue;
            }
            let target = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            let found =
                std::fs::read_to_string(&target).unwrap_or_else(|e| panic!("{}: {link}: {e}", document.display()));
            let slug = |title: &str| -> String {
                let title = title.trim().to_lowercase();
                title
                    .chars()
                    .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                    .collect::<String>()
                    .replace(' ', "-")
            };
            let has = |anchor: &str| {
                found.lines().filter(|l| l.starts_with('#')).any(|l| slug(l.trim_start_matches('#')) == anchor)
            };
            assert!(anchor.is_empty() || has(anchor), "{}: no heading for {link}", document.display());
        }
    }
}
