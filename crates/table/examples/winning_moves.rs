//! How many positions of n tiles are losing, how many have exactly one winning move, and how many have several, by the
//! definition:
//!
//! ```text
//! cargo run --release -p chomp-table --example winning_moves -- 60
//! ```

#![expect(clippy::print_stdout, reason = "an example prints what it finds")]

use chomp_table::partition::Partition;

fn main() {
    let tiles: u32 = std::env::args()
        .nth(1)
        .map_or(40, |tiles| tiles.parse().expect("a number"));
    // Whether the positions of each area are losing, by rank. Without tiles, the other one has taken the poison.
    let mut losing = vec![vec![false]];
    println!("tiles,losing,one,several");
    for area in 1..=tiles {
        let mut counts = [0; 3];
        let mut of_area = Vec::new();
        let mut position = Partition::first(area);
        loop {
            let moves = position.moves().map(|(_, left)| left);
            let is_losing = |left: &Partition| losing[left.area() as usize][to_index(left)];
            let winning = moves.filter(is_losing).take(2).count();
            counts[winning] += 1;
            of_area.push(winning == 0);
            if !position.advance() {
                break;
            }
        }
        losing.push(of_area);
        let [lost, one, several] = counts;
        println!("{area},{lost},{one},{several}");
    }
}

fn to_index(position: &Partition) -> usize {
    usize::try_from(position.rank()).expect("in memory")
}
