//! `chomp completions` and `chomp man`: shell completions and manual pages, made from the command line's definition.

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

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
  chomp man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this directory, which is made if it is not there
    /// [default: the first page, to stdout]
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
        crate::print(&pages[0].1)?;
    }
    Ok(())
}

/// The pages and the names of their files: that of the program first, then one for each command.
fn pages(program: Command) -> anyhow::Result<Vec<(String, String)>> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let page = |command: &Command| {
        let page = Man::new(command.clone());
        let mut text = Vec::new();
        page.render(&mut text)?;
        Ok((page.get_filename(), String::from_utf8(text)?))
    };
    let commands = std::iter::once(&program).chain(program.get_subcommands());
    commands.map(page).collect()
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
            assert!(page.contains("Examples"), "{name} has no examples");
        }
        let commands = Args::with_variables();
        let commands: Vec<_> = commands.get_subcommands().map(Command::get_name).collect();
        let named: Vec<_> = commands
            .iter()
            .map(|name| format!("chomp-{name}.1"))
            .collect();
        assert!(pages[1..].iter().map(|(name, _)| name).eq(&named));
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::with_variables(), "chomp", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(commands.iter().all(|name| script.contains(name)), "{shell}");
        }
    }
}
