//! The words of the command line: how values are asked for, what variables and terminals change, and the manual.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use nix::pty::{Winsize, openpty};
use serde_json::Value;

use crate::common::{chomp, end, exists, finished, read_json, run};

/// The output of a command on a terminal of 80 columns.
fn on_terminal(mut command: Command) -> String {
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(&size, None).unwrap();
    command.stdout(Stdio::from(terminal.slave.try_clone().unwrap()));
    command.stderr(Stdio::from(terminal.slave));
    let mut child = command.spawn().unwrap();
    // It has the other side of the terminal too.
    drop(command);
    let mut output = Vec::new();
    // The end of a terminal is an error.
    let _ = File::from(terminal.master).read_to_end(&mut output);
    assert!(child.wait().unwrap().success());
    String::from_utf8(output).unwrap()
}

#[test]
fn a_wrong_variable_is_named_and_an_empty_one_is_unset() {
    for (variable, line, said) in [
        ("CHOMP_RUN_BITS=abc", "run", "from 2 to 52"),
        ("CHOMP_QUERY_JSON=maybe", "query 2x2", "true or false"),
        (
            "CHOMP_EXPORT_FORMAT=xml",
            "export --out x",
            "possible values",
        ),
        (
            "CHOMP_TABLE=ftp://x",
            "access add bob",
            "no path on this machine",
        ),
        (
            "CHOMP_BOX_COLUMNS=5",
            "box --space 2x2x2",
            "cannot be used with",
        ),
        ("CHOMP_RUN_JOURNAL=x", "run --bits 12", "--store"),
    ] {
        let (name, value) = variable.split_once('=').unwrap();
        end(chomp(line).env(name, value)).refuses(2, &[name, said]);
    }
    let not_text = OsStr::from_bytes(b"\xff");
    end(chomp("run --bits 12").env("CHOMP_RUN_MEMORY", not_text)).refuses(2, &["CHOMP_RUN_MEMORY"]);
    // A wrong flag is not the fault of the variable that it overrules.
    let ended = end(chomp("run --bits 0").env("CHOMP_RUN_BITS", "12")).exits(2);
    ended.says_nothing_of("CHOMP_RUN_BITS");

    let mut command = chomp("query --no-moves 3x20");
    for name in ["CHOMP_TABLE", "CHOMP_QUERY_JSON", "CHOMP_QUERY_NUMBERS"] {
        command.env(name, "");
    }
    assert_eq!(end(&mut command).done().stdout, "3x20 is winning\n");
}

#[test]
fn a_wrong_number_is_answered_with_what_is_wanted() {
    for (line, wanted) in [
        ("run --bits abc", "a whole number from 2 to 52 is wanted"),
        ("run --bits 53", "a whole number from 2 to 52 is wanted"),
        ("run --bits 20 --range-bits x", "from 12 to 32 is wanted"),
        ("run --bits 20 --threads two", "of at least 1 is wanted"),
        ("grundy --cells 121", "from 1 to 120 is wanted"),
        (
            "export --format rows --out x --bits -",
            "from 2 to 64 is wanted",
        ),
        (
            "verify --seed x",
            "a whole number from 0 to 9007199254740991",
        ),
        ("verify --sample 0", "of at least 1 is wanted"),
        ("worker --patience soon", "a whole number is wanted"),
        ("game nim --losing all", "a whole number from 0"),
        ("plan --bits 30 --workers 0", "from 1 to 65536 is wanted"),
        (
            "coordinator --bits 30 --replicas none",
            "from 1 to 16 is wanted",
        ),
        ("box 10", "rows x columns are wanted, as 8x10"),
        ("openings 8", "rows x columns are wanted, as 8x10"),
        (
            "serve --cache lots",
            "a size with a unit is wanted, as 8GiB",
        ),
        ("serve --http nowhere", "an address is HOST:PORT"),
    ] {
        let ended = end(&mut chomp(line));
        ended.refuses(2, &[wanted]);
        ended.says_nothing_of("invalid digit");
    }
    let ended = end(&mut chomp(
        "plan --bits 30 --range-bits 24 --threads 1 --memory 10MiB",
    ));
    ended.refuses(2, &["1 thread with 24 range bits", "at least --memory "]);
}

/// JSON has no other text than UTF-8, and names of folders have.
#[test]
fn a_folder_whose_name_is_no_text_is_named_in_json() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join(OsStr::from_bytes(b"na\xffme"));
    let table = home.join("table");
    let named = |told: &Value| {
        let told = told.as_str().unwrap();
        assert!(told.contains("na\u{fffd}me"), "{told}");
    };
    named(&end(&mut run(&table, 14)).summary()["table"]);
    let verified = end(chomp("verify --json --table").arg(&table)).summary();
    named(&verified["folder"]);
    named(&read_json(&table.join("verify-14-quick.json"))["folder"]);
    let out = home.join("rows.csv");
    let mut export = chomp("export --json --format rows");
    export.arg("--table").arg(&table).arg("--out").arg(&out);
    named(&end(&mut export).summary()["out"]);
    named(&read_json(&home.join("rows.csv.json"))["out"]);
    let positions = home.join("positions.csv");
    let solved = end(chomp("box 3x9 --json --positions").arg(&positions)).summary();
    named(&solved["file"]["out"]);
    let stored = end(run(&home.join("own"), 14)
        .arg("--store")
        .arg(home.join("store")))
    .summary();
    named(&stored["table"]);
    assert!(exists(&home.join("store/table-14/manifest.json")));
}

#[test]
fn log_lines_have_colours_on_a_terminal_that_wants_them() {
    for (variables, has_colours) in [
        (&[("TERM", "xterm")][..], true),
        (&[("TERM", "xterm"), ("NO_COLOR", "")], true),
        (&[("TERM", "xterm"), ("NO_COLOR", "1")], false),
        (&[("TERM", "dumb")], false),
    ] {
        // A wrong choice of log lines is one.
        let mut command = chomp("man");
        command.env("CHOMP_LOG", "chomp=loud");
        command.envs(variables.iter().copied());
        let said = on_terminal(command);
        assert!(said.contains("CHOMP_LOG"), "{said}");
        assert_eq!(
            said.contains('\u{1b}'),
            has_colours,
            "{variables:?}: {said}"
        );
    }
    let mut elsewhere = chomp("man");
    elsewhere
        .env("CHOMP_LOG", "chomp=loud")
        .env("TERM", "xterm");
    let ended = end(&mut elsewhere).done();
    ended.says("CHOMP_LOG");
    ended.says_nothing_of("\u{1b}");
}

#[test]
fn help_is_as_wide_as_the_terminal() {
    for name in ["run", "query", "game", "box", "verify", "serve"] {
        let mut command = chomp(&format!("help {name}"));
        command.env("TERM", "dumb");
        let said = on_terminal(command);
        let widest = said
            .lines()
            .map(|line| line.trim_end().chars().count())
            .max();
        assert!(
            widest.is_some_and(|widest| (60..=80).contains(&widest)),
            "{widest:?}: {said}"
        );
    }
}

#[test]
fn a_run_has_its_own_worker_from_the_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = chomp("run --bits 22 --range-bits 12 --table");
    command.arg(directory.path()).env("TERM", "xterm");
    let said = on_terminal(command);
    assert!(
        said.contains("fingerprint") && !said.contains("no worker"),
        "{said}"
    );
}

#[test]
fn each_command_has_a_page_of_the_manual() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    end(chomp("man --out").arg(&pages)).done();
    for (command, flag) in [
        ("", "\\-\\-version"),
        ("query", "\\-\\-depth"),
        ("access add", "\\-\\-force"),
    ] {
        let page = end(&mut chomp(&format!("man {command}"))).done().stdout;
        assert!(page.contains(flag), "{command} without {flag}");
        let name = format!("chomp {command}").trim_end().replace(' ', "-");
        assert_eq!(fs::read_to_string(pages.join(name + ".1")).unwrap(), page);
    }
    end(&mut chomp("man chess")).refuses(2, &["chomp chess: no such command"]);
}

/// A file that is there is replaced when that is asked for, and by one flag.
#[test]
fn files_are_replaced_by_force_only() {
    let table = finished(14);
    fs::write(table.path().join("secrets.json"), "{}").unwrap();
    let access = "{\"coordinator\": \"https://localhost:7171\"}";
    let owners = table.path().join("access.json");
    fs::write(&owners, access).unwrap();
    fs::set_permissions(&owners, Permissions::from_mode(0o600)).unwrap();
    for line in [
        "export --format rows --out",
        "box 3x9 --positions",
        "access add bob --out",
    ] {
        let file = table.path().join("file.csv");
        fs::write(&file, "mine").unwrap();
        let begin = || {
            let mut command = chomp(line);
            command.arg(&file).env("CHOMP_TABLE", table.path());
            command
        };
        end(&mut begin()).refuses(5, &["--force"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine", "{line}");
        end(begin().arg("--force")).done();
        assert_ne!(fs::read_to_string(&file).unwrap(), "mine", "{line}");
    }
}

#[test]
fn sides_are_written_one_way() {
    let told = |line: &str| {
        let mut told = end(&mut chomp(&format!("box {line} --json"))).summary();
        for time in ["seconds", "cpu_seconds"] {
            told[time].take();
        }
        told
    };
    assert_eq!(told("4x9"), told("--rows 4 --columns 9"));
    assert_eq!(
        told("3x30 --periods"),
        told("--rows 3 --columns 30 --periods")
    );
    assert_eq!(
        told("40x40 --opening 3,3"),
        told("--opening 3,3 --columns 40")
    );
    let inside = told("20x40 --opening 3,3");
    let boards = inside["boards"].as_array().unwrap();
    assert!(!boards.is_empty() && boards.iter().all(|board| board[0].as_u64() <= Some(20)));
    end(&mut chomp("box --columns 9")).refuses(2, &["how many rows?"]);
    end(&mut chomp("box")).refuses(2, &["<RxC>"]);
}
