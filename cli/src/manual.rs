//! `chomp completions` and `chomp man`: shell completions and manual pages, made from the command line's definition.

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

use crate::exit::usage;
use crate::flags::path;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp completions bash > ~/.local/share/bash-completion/completions/chomp
  chomp completions fish > ~/.config/fish/completions/chomp.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp man | man -l -
  chomp man access add | man -l -
  chomp man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The command whose page to print [default: the first page, of the program]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub(crate) command: Vec<String>,

    /// Write the pages of all commands into this directory, which is made if it is not there
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) out: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut program: Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "chomp", &mut script);
    crate::print(&String::from_utf8(script)?)
}

pub(crate) fn man(args: &ManArgs, program: Command) -> anyhow::Result<()> {
    let pages = pages(program)?;
    if let Some(folder) = &args.out {
        let made = chomp_durable_files::make_folders(folder);
        made.with_context(|| format!("cannot create the folder {}", folder.display()))?;
        for (name, page) in pages {
            let path = folder.join(name);
            chomp_durable_files::put(&path, page.as_bytes())?;
        }
    } else {
        let name = format!("chomp {}", args.command.join(" "));
        let file = name.trim_end().replace(' ', "-") + ".1";
        let page = pages.into_iter().find(|(found, _)| *found == file);
        let (_, page) = page.ok_or_else(|| usage(format!("{name}: no such command")))?;
        crate::print(&page)?;
    }
    Ok(())
}

/// The pages and the names of their files: that of the program first, then one for each command and those below it.
fn pages(program: Command) -> anyhow::Result<Vec<(String, String)>> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    let mut commands = vec![&program];
    while let Some(command) = commands.pop() {
        let below: Vec<_> = command.get_subcommands().collect();
        commands.extend(below.into_iter().rev());
        let page = Man::new(command.clone());
        let mut text = Vec::new();
        page.render(&mut text)?;
        pages.push((page.get_filename(), laid_out(&String::from_utf8(text)?)));
    }
    Ok(pages)
}

/// A page on which lines that begin with a space, as those of tables and examples, stay as they are.
fn laid_out(page: &str) -> String {
    let (mut text, mut is_kept) = (String::new(), false);
    for line in page.lines() {
        if line.starts_with(' ') != is_kept {
            text += if is_kept { ".fi\n" } else { ".nf\n" };
            is_kept = !is_kept;
        }
        text += line;
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;

    #[test]
    fn every_command_has_its_page_with_examples_and_its_completions() {
        let pages = pages(Args::with_variables()).unwrap();
        assert_eq!(pages[0].0, "chomp.1");
        for (name, page) in &pages {
            assert!(page.contains(".SH OPTIONS"), "{name}");
            let is_below = name.matches('-').count() > 1;
            assert!(
                is_below || page.contains("Examples"),
                "{name} has no examples"
            );
        }
        let commands = Args::with_variables();
        let commands: Vec<_> = commands.get_subcommands().map(Command::get_name).collect();
        let is_there = |name: &str| pages.iter().any(|(page, _)| page == name);
        assert!(
            commands
                .iter()
                .all(|name| is_there(&format!("chomp-{name}.1")))
        );
        assert!(
            ["add", "list", "revoke"]
                .iter()
                .all(|below| is_there(&format!("chomp-access-{below}.1")))
        );
        let game = pages.iter().find(|(name, _)| name == "chomp-game.1");
        let (table, _) = game
            .unwrap()
            .1
            .split_once(".nf\n")
            .unwrap()
            .1
            .split_once(".fi\n")
            .unwrap();
        assert_eq!(
            table.lines().count(),
            1 + chomp_games::NAMES.len(),
            "a game a line"
        );
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::with_variables(), "chomp", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(commands.iter().all(|name| script.contains(name)), "{shell}");
            // Bash takes a name of a file apart at its spaces, unless it is told not to.
            let lines = || script.lines().map(str::trim);
            for (before, line) in lines().zip(lines().skip(1)) {
                let is_of_files = line.contains("compgen -f");
                assert!(!is_of_files || before == "IFS=$'\\n'", "{before} {line}");
            }
            let takes_files = |name| script.contains(name) && script.contains("-o filenames");
            assert!(shell != Shell::Bash || takes_files("--report)"));
        }
    }

    /// A line of prose is wrapped by the terminal, and one that is laid out begins with a space.
    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        let mut commands = vec![Args::with_variables()];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let after = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            for line in after.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 80, "{line}");
            }
            let is_prose = |line: &&str| !line.is_empty() && !line.starts_with(' ');
            let broken = after.lines().zip(after.lines().skip(1));
            for (line, next) in broken.filter(|(line, next)| is_prose(line) && is_prose(next)) {
                assert!(line.ends_with(['.', ':']), "wrapped by hand: {line} {next}");
            }
        }
    }
}
