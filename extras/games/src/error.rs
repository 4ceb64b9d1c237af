/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum GameError {
    /// A text that means nothing in this game, and what is understood.
    #[error("\"{0}\" is not understood: write {1}")]
    Syntax(String, &'static str),
    /// Something that is too large: the limit, and of what.
    #[error("this is too large: the limit is {0} {1}")]
    TooLarge(usize, &'static str),
    /// There was no time left for it.
    #[error("this takes too much time here")]
    NoTime,
}

impl GameError {
    pub(crate) fn syntax(text: &str, form: &'static str) -> GameError {
        GameError::Syntax(text.to_owned(), form)
    }

    pub(crate) fn check(size: usize, limit: usize, what: &'static str) -> Result<(), GameError> {
        let fits = size <= limit;
        fits.then_some(()).ok_or(GameError::TooLarge(limit, what))
    }
}
