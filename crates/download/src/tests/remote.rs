//! A table on a server that answers wrongly, late or not at all is asked: no answer is wrong.

use super::*;
use chomp_table::reader::AnyTable;

pub(super) async fn open(reach: Reach) -> Result<Table, DownloadError> {
    crate::open(reach).await.map(losing)
}

pub(super) fn losing(table: AnyTable) -> Table {
    match table {
        AnyTable::Losing(table) => *table,
        AnyTable::Values(_) => panic!("no table of values was put there"),
    }
}

/// Asks for all positions of up to 10 bits and some others, together and one by one; returns the
/// first refusal.
pub(super) async fn ask(table: Table) -> Result<(), TableError> {
    let asked = tokio::task::spawn_blocking(move || {
        let losing = definition::losing(BITS);
        let indices = (0..losing.len()).filter(|index| *index < 512 || index % 101 == 0);
        let words: Vec<Word> = indices.map(|index| Word::new(index as u64 * 2)).collect();
        for group in words.chunks(100) {
            let answers = table.are_losing(group)?;
            for (&word, answer) in group.iter().zip(answers) {
                assert_eq!(answer, losing[definition::index_of(word)]);
                assert_eq!(table.is_losing(word)?, answer);
            }
        }
        Ok(())
    });
    asked.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_asked_where_it_is() {
    let server = Server::start().await;
    let folder = format!("{}table-15", server.url);
    for from in [server.url.clone(), folder] {
        let table = open(reach(&from)).await.unwrap();
        assert_eq!(table.manifest().bits, BITS);
        ask(table).await.unwrap();
    }
}

/// One question takes the lists, one index and one data frame: 16 words of 50.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_needed_is_fetched() {
    let server = Server::start().await;
    let table = open(reach(&server.url)).await.unwrap();
    let asked = || server.world().requests;
    assert_eq!(asked(), 3, "the list, the manifest, the digests");
    let table = tokio::task::spawn_blocking(move || {
        assert!(table.is_losing(Word::new(2)).unwrap());
        assert!(table.is_losing(Word::new(2)).unwrap());
        table
    });
    let table = table.await.unwrap();
    assert_eq!((asked(), server.world().continued), (5, 2));
    ask(table).await.unwrap();
    let frames = asked() as usize - 3;
    let words = definition::losing(BITS).iter().filter(|it| **it).count();
    assert!(frames < words / 16 + words / 50, "{frames}: nothing twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn outages_are_waited_out() {
    let mut all = JoinSet::new();
    for peril in [Peril::Cut, Peril::Busy, Peril::Drip("shards", 32)] {
        all.spawn(async move {
            let server = Server::start().await;
            let table = open(reach(&server.url)).await.unwrap();
            server.set(peril);
            ask(table).await.unwrap();
        });
    }
    all.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_wrong() {
    for peril in [
        Peril::CutWithoutRanges,
        Peril::Status(500),
        Peril::Status(404),
        Peril::Status(302),
        Peril::Endless(".zst"),
        Peril::LongShards,
        Peril::ShortShards,
        Peril::EmptyAnswer,
        Peril::RangeElsewhere,
        Peril::RangeBeyond,
        Peril::RangeUnsaid,
        Peril::RangeTooLong,
        Peril::NoSuchRange,
        Peril::Flip,
        Peril::NoTable,
    ] {
        let server = Server::start().await;
        let mut reach = reach(&server.url);
        let is_outage = peril == Peril::Status(500);
        if is_outage {
            reach.patience = patience_later(Duration::from_secs(2));
        }
        let table = open(reach).await.unwrap();
        server.set(peril);
        let error = ask(table).await.expect_err(&format!("{peril:?}"));
        let text = chomp_table::format::describe(&error);
        assert!(text.contains(&server.url), "{peril:?}: {text}");
        let is_of_range = [
            Peril::RangeElsewhere,
            Peril::RangeBeyond,
            Peril::RangeUnsaid,
        ];
        let is_told = text.contains("it has the range") || !is_of_range.contains(&peril);
        assert!(is_told, "{peril:?}: {text}");
        let is_unreachable = text.contains("cannot be reached");
        assert_eq!(is_unreachable, is_outage, "{peril:?}: {text}");
    }
}
