//! The tests of the whole, in one program, which is linked once: those that wait run beside those that compute.

#[path = "../common/mod.rs"]
mod common;
#[path = "../peers/mod.rs"]
mod peers;

mod archives;
mod boxes;
mod certify;
mod checks;
mod coordinator;
mod damage;
mod deploy;
mod download;
mod evicted;
mod export;
mod full_disk;
mod games;
mod grundy;
mod histories;
mod hostile;
mod house;
mod impostor;
mod interrupted;
mod kills;
mod known_results;
mod liars;
mod netns;
mod oeis;
mod outages;
mod pages;
mod participants;
mod plan;
mod planted;
mod power_cuts;
mod python;
mod query;
mod refusals;
mod restored;
mod same_table;
mod serve;
mod site;
mod slurm;
mod standing_still;
mod store;
mod values;
mod verify;
mod waiting;
mod words;
mod working_files;
mod wrong_places;
mod wrong_words;
