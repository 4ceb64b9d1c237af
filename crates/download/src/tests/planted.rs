//! Links and pipes that somebody else has put where a download writes.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use chomp_table::format::describe;

use super::server::Server;
use super::{assert_whole, get, reach, write};

/// Nothing is written through a name that somebody has planted, and no pipe is waited for.
#[tokio::test]
async fn what_is_planted_in_the_folder_is_not_written_to() {
    let server = Server::start().await;
    let home = tempfile::tempdir().unwrap();
    let foreign = home.path().join("foreign");
    write(&foreign, b"a file elsewhere");
    for what in ["symbolic link", "hard link", "pipe"] {
        for name in [
            "lock",
            "table-15/shard-0000.zst.partial",
            "table-15/shard-0000.zst",
            "table-15/SHA256SUMS",
            "table-15/manifest.json",
        ] {
            // Complete files with another name are as good as any, and others are replaced.
            if what == "hard link" && !name.ends_with("partial") {
                continue;
            }
            let out = format!("{what} {}", name.replace('/', "-"));
            let out = home.path().join(out);
            fs::create_dir_all(out.join("table-15")).unwrap();
            let path = out.join(name);
            match what {
                "symbolic link" => symlink(&foreign, &path).unwrap(),
                "hard link" => fs::hard_link(&foreign, &path).unwrap(),
                _ => {
                    let made = Command::new("mkfifo").arg(&path).status();
                    assert!(made.unwrap().success());
                }
            }
            let error = get(reach(&server.url), &out).await.unwrap_err();
            let text = describe(&error);
            assert!(text.contains(name) && text.contains(what), "{name}: {text}");
            assert_eq!(fs::read(&foreign).unwrap(), b"a file elsewhere");
            fs::remove_file(out.join(name)).unwrap();
            get(reach(&server.url), &out).await.unwrap();
            assert_whole(&server, &out);
        }
    }
}
