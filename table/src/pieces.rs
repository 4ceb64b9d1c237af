//! Records cut into pieces, so that they travel in messages of bounded size.
//!
//! The pieces of a record are consecutive; the last one is marked. Records follow each other.

use bytes::Bytes;

use crate::head::Head;

/// The most bytes of a record in a piece, and of all pieces in a message.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// Consecutive bytes of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The range that the record is of.
    pub head: Head,
    /// The bytes.
    pub data: Bytes,
    /// Whether they end the record.
    pub last: bool,
}

/// Why some pieces are not records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PiecesError {
    /// The record before was not ended.
    #[error("the record of range {open} breaks off where that of range {next} begins")]
    Interrupted {
        /// The range of the record that was not ended.
        open: Head,
        /// The range of the next record.
        next: Head,
    },
    /// The record of this range is longer than any can be.
    #[error("the record of range {0} is longer than a record can be")]
    TooLong(Head),
    /// The pieces ended within the record of this range.
    #[error("the record of range {0} is not complete")]
    Incomplete(Head),
}

/// Cuts records into messages of pieces, none with over [`PIECE_BYTES_MAX`] bytes of records.
pub fn cut(records: impl IntoIterator<Item = (Head, Bytes)>) -> impl Iterator<Item = Vec<Piece>> {
    let mut pieces = records
        .into_iter()
        .flat_map(|(head, record)| cut_record(head, record))
        .peekable();
    std::iter::from_fn(move || {
        let mut message = vec![pieces.next()?];
        let mut bytes = message[0].data.len();
        while let Some(piece) = pieces.next_if(|piece| bytes + piece.data.len() <= PIECE_BYTES_MAX)
        {
            bytes += piece.data.len();
            message.push(piece);
        }
        Some(message)
    })
}

fn cut_record(head: Head, mut record: Bytes) -> impl Iterator<Item = Piece> {
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let data = record.split_to(record.len().min(PIECE_BYTES_MAX));
        ended = record.is_empty();
        Some(Piece {
            head,
            data,
            last: ended,
        })
    })
}

/// Joins pieces to records again.
#[derive(Debug)]
pub struct Joiner {
    record_bytes_max: u64,
    open: Option<(Head, Vec<u8>)>,
}

impl Joiner {
    /// A joiner of records of at most `record_bytes_max` bytes.
    pub fn new(record_bytes_max: u64) -> Joiner {
        Joiner {
            record_bytes_max,
            open: None,
        }
    }

    /// Takes the next piece; gives a record when this ends one.
    ///
    /// # Errors
    ///
    /// If the record before was not ended, or this one gets too long.
    pub fn push(&mut self, piece: Piece) -> Result<Option<(Head, Bytes)>, PiecesError> {
        let (head, mut record) = match self.open.take() {
            None if piece.last && piece.data.len() as u64 <= self.record_bytes_max => {
                return Ok(Some((piece.head, piece.data)));
            }
            None => (piece.head, Vec::new()),
            Some((open, _)) if open != piece.head => {
                return Err(PiecesError::Interrupted {
                    open,
                    next: piece.head,
                });
            }
            Some(open) => open,
        };
        if (record.len() + piece.data.len()) as u64 > self.record_bytes_max {
            return Err(PiecesError::TooLong(head));
        }
        record.extend_from_slice(&piece.data);
        if piece.last {
            return Ok(Some((head, record.into())));
        }
        self.open = Some((head, record));
        Ok(None)
    }

    /// Says that no more pieces come.
    ///
    /// # Errors
    ///
    /// If a record was not ended.
    pub fn finish(self) -> Result<(), PiecesError> {
        match self.open {
            Some((head, _)) => Err(PiecesError::Incomplete(head)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(
        messages: impl IntoIterator<Item = Vec<Piece>>,
        max: u64,
    ) -> Result<Vec<(Head, Bytes)>, PiecesError> {
        let mut joiner = Joiner::new(max);
        let mut records = Vec::new();
        for piece in messages.into_iter().flatten() {
            records.extend(joiner.push(piece)?);
        }
        joiner.finish()?;
        Ok(records)
    }

    #[test]
    fn records_of_all_sizes_round_trip() {
        let sizes = [
            0,
            1,
            1000,
            PIECE_BYTES_MAX - 1,
            PIECE_BYTES_MAX,
            PIECE_BYTES_MAX + 1,
            3 * PIECE_BYTES_MAX,
            5,
        ];
        let records: Vec<_> = (1u8..)
            .zip(sizes)
            .map(|(byte, size)| (Head(byte.into()), Bytes::from(vec![byte; size])))
            .collect();
        let messages: Vec<_> = cut(records.clone()).collect();
        for message in &messages {
            assert!(!message.is_empty());
            assert!(message.iter().map(|piece| piece.data.len()).sum::<usize>() <= PIECE_BYTES_MAX);
        }
        assert_eq!(join(messages, 3 * PIECE_BYTES_MAX as u64).unwrap(), records);
        assert_eq!(cut([]).count(), 0);
    }

    #[test]
    fn wrong_pieces_are_refused() {
        let piece = |head, len, last| Piece {
            head: Head(head),
            data: Bytes::from(vec![0; len]),
            last,
        };
        assert_eq!(
            join([vec![piece(1, 5, true)]], 4),
            Err(PiecesError::TooLong(Head(1)))
        );
        assert_eq!(
            join([vec![piece(1, 3, false), piece(1, 3, true)]], 5),
            Err(PiecesError::TooLong(Head(1)))
        );
        assert_eq!(
            join([vec![piece(1, 3, false)]], 5),
            Err(PiecesError::Incomplete(Head(1)))
        );
        assert_eq!(
            join([vec![piece(1, 3, false), piece(2, 3, true)]], 9),
            Err(PiecesError::Interrupted {
                open: Head(1),
                next: Head(2)
            })
        );
    }
}
