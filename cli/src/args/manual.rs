//! The commands that tell about the program itself: `completions` and `man`.

use std::path::PathBuf;

use clap_complete::Shell;

use super::shared::path;

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
