//! `chomp certify` as a process: the first moves that win on 8x10 are proved, other programs agree, and what proves
//! nothing is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use chomp_testing::needs;

use crate::common::{ask, chomp, end, finished};

fn certify(table: &Path, line: &str) -> Command {
    let mut command = chomp(&format!("certify {line} --table"));
    command.arg(table);
    command
}

fn check(file: &Path) -> Command {
    let mut command = chomp("certify --check");
    command.arg(file);
    command
}

/// The check in Python, which shares nothing with the program; none if there is no Python.
fn python(file: &Path) -> Option<Command> {
    let there = needs::can("python3", Command::new("python3").arg("--version"));
    needs::found("PYTHON", there)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/check_certificate.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

#[test]
fn winning_first_moves_are_proved() {
    let table = finished(18);
    let out = table.path().join("proof.txt");
    for (line, positions, necessary) in [
        ("8x10 --move 5,6", 467, 448),
        ("8x10 --move 4,9", 598, 566),
        ("5x4 --move 3,3", 11, 11),
    ] {
        let mut command = certify(table.path(), &format!("{line} --json --force"));
        command.arg("--out").arg(&out);
        let told = end(&mut command).summary();
        let counts = [&told["positions"], &told["necessary"]];
        assert_eq!(counts, [positions, necessary], "{line}");
        let checked = end(check(&out).arg("--json")).summary();
        assert_eq!(checked["positions"], positions, "{line}");
        // To stdout goes the same text, and from stdin it is read.
        let printed = end(&mut certify(table.path(), line)).done().stdout;
        assert_eq!(printed, fs::read_to_string(&out).unwrap());
        ask(&mut chomp("certify --check -"), printed.clone()).done();
        if let Some(mut python) = python(&out) {
            let (board, first) = line.split_once(" --move ").unwrap();
            let said = format!("({first}) wins on {board}: {positions} positions\n");
            assert_eq!(end(&mut python).done().stdout, said);
            let mut lines: Vec<&str> = printed.lines().collect();
            let left_out = lines.pop().unwrap();
            fs::write(&out, lines.join("\n")).unwrap();
            let code = self::python(&out).unwrap().status().unwrap().code();
            assert_eq!(code, Some(1), "{left_out}");
        }
    }
}

#[test]
fn what_proves_nothing_is_refused() {
    let table = finished(18);
    let out = table.path().join("proof.txt");
    for (line, code, said) in [
        ("8x10 --move 5,5", 2, "(5,5) does not win on 8x10"),
        ("8x10 --move 1,1", 2, "no first move of 8x10"),
        ("8x10 --move 9,1", 2, "no first move of 8x10"),
        ("9x10 --move 7,8", 5, "19 bits"),
    ] {
        end(&mut certify(table.path(), line)).refuses(code, &[said]);
    }
    let text = end(&mut certify(table.path(), "8x10 --move 5,6"))
        .done()
        .stdout;
    let (without_last, _) = text.trim_end().rsplit_once('\n').unwrap();
    for (wrong, said) in [
        (
            text.replace("board 8x10", "board 9x10"),
            "is not among them",
        ),
        (without_last.to_owned(), "has no reply"),
        (text.clone() + "2,3\n", "row 2 has 3"),
        (text.replace("move 5,6\n", ""), "\"move 5,6\""),
        (String::new(), "\"board 8x10\""),
    ] {
        fs::write(&out, wrong).unwrap();
        end(&mut check(&out)).refuses(3, &["proves nothing", said]);
    }
    end(&mut check(&table.path().join("nowhere"))).refuses(1, &["nowhere"]);
}
