//! Row 6: an older copy of the data directory put back. What was issued since then is never issued again for other things.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::served;
use super::told::{STILL, serve, store};
use crate::support::Client;

/// Submits some, and answers the ids of their events.
fn go_on(client: &Client, count: usize) -> Vec<String> {
    (0..count).for_each(|n| drop(client.submit(json!({"do": "noop", "n": n}))));
    let events = client.pages("/api/events", Some("earliest"));
    events.iter().map(|event| event["event_id"].as_str().expect("an id").to_owned()).collect()
}

fn epoch(id: &str) -> &str {
    id.split('-').next().expect("an epoch")
}

/// Takes ids, stops, copies, goes on, puts the copy back in this way, publishes, and resumes with the ids.
fn a_copy_put_back(put_back: impl FnOnce(&Path, &Path)) {
    let (place, copy) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
    fs::write(place.path().join("longhaul.toml"), STILL).expect("written");
    let served = serve(place.path());
    go_on(&served.client, 3);
    served.end();
    served::copy(&place.path().join("data"), &copy.path().join("data"));
    let served = serve(place.path());
    let seen = go_on(&served.client, 5);
    served.end();
    put_back(&copy.path().join("data"), &place.path().join("data"));
    let served = serve(place.path());
    let now = go_on(&served.client, 7);
    assert!(now.len() > seen.len());
    assert!(now.iter().all(|id| !seen.contains(id)), "{seen:?} and again {now:?}");
    for id in &seen {
        let mut stream = served.client.stream("/api/events", Some(id));
        let first = stream.next().expect("an event");
        assert_eq!((first.event.as_str(), &first.data["reason"]), ("stream.reset", &json!("other_log")), "{id}");
        let then = stream.next().expect("an event");
        assert_eq!(then.id.as_deref(), Some(now[0].as_str()), "from the beginning of this history");
    }
    drop(served);
    // The new history is as good as any: it goes on over kills and restarts.
    let served = serve(place.path());
    let later = go_on(&served.client, 1);
    assert_eq!(&later[..now.len()], now);
    let end = served.end();
    assert!(!end.said.contains("new epoch"), "{end:?}");
    assert_eq!(served::verify(place.path()).code, Some(0));
}

#[test]
fn case_6_an_older_copy_in_place_of_the_directory_is_another_log() {
    a_copy_put_back(|copy, data| {
        fs::remove_dir_all(data).expect("removed");
        served::copy(copy, data);
    });
}

#[test]
fn case_6_an_older_copy_written_over_the_directory_is_another_log() {
    a_copy_put_back(|copy, data| served::copy(copy, data));
}

#[test]
fn case_6_an_older_copy_from_an_archive_that_keeps_all_times_is_another_log() {
    a_copy_put_back(|copy, data| {
        let archive = copy.join("../data.tar");
        run(Command::new("tar").arg("-cpf").arg(&archive).arg("-C").arg(copy).arg("."));
        run(Command::new("tar").arg("-xpf").arg(&archive).arg("-C").arg(data));
    });
}

fn run(command: &mut Command) {
    assert!(command.status().expect("it runs").success(), "{command:?}");
}

#[test]
fn plain_starts_kills_and_a_moved_directory_keep_their_log() {
    let place = tempfile::tempdir().expect("made");
    fs::write(place.path().join("longhaul.toml"), STILL).expect("written");
    let served = serve(place.path());
    let first = go_on(&served.client, 1);
    served.end();
    for round in 0..4 {
        let (data, moved) = (place.path().join("data"), place.path().join("moved"));
        if round == 2 {
            fs::rename(&data, &moved).expect("moved");
            fs::rename(&moved, &data).expect("moved");
        }
        let now = store(place.path());
        if round == 3 {
            let permissions = fs::metadata(now.join("REACHED")).expect("there").permissions();
            fs::set_permissions(now.join("REACHED"), permissions).expect("set");
        }
        let served = serve(place.path());
        let ids = go_on(&served.client, 1);
        assert_eq!(epoch(&ids[0]), epoch(&first[0]), "round {round}");
        if round % 2 == 0 { drop(served) } else { drop(served.end()) }
    }
}
