//! `compact` cut short at each of its steps, with and without a step that exchanges two folders: the store is whole, old or
//! new, and clients' cursors hold.

use super::*;

/// A stopped server with some history.
fn stopped() -> (Server, Vec<Value>) {
    let mut server = Server::start(TRIAL);
    let client = server.client();
    let text = "y".repeat(70_000);
    let ids: Vec<String> =
        (0..40).map(|n| client.submit(json!({"do": "fail", "times": n % 2, "text": text}))).collect();
    ids.iter().for_each(|id| drop(client.ended(id)));
    let events = client.pages("/api/events", None);
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait_exit().success());
    (server, events)
}

fn compact(server: &Server) -> Command {
    let mut command = longhaul(&["compact", "--json", "--data-dir"]);
    command.arg(server.data_dir());
    command
}

fn beside(server: &Server) -> Vec<String> {
    let entries = std::fs::read_dir(server.data_dir()).expect("the folder is there");
    let mut names: Vec<_> = entries.map(|e| e.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    // Where its server listened.
    names.retain(|name| name != "address");
    names.sort();
    names
}

#[test]
fn a_cursor_from_before_a_compaction_goes_on_where_it_was() {
    let (mut server, events) = stopped();
    let done = value(&run(&mut compact(&server)));
    assert_eq!(done["last"], events[events.len() - 1]["event_id"], "{done}");
    assert_eq!(beside(&server), ["store"]);
    server.start_again();
    let client = server.client();
    let middle = events[events.len() / 2]["event_id"].as_str().expect("an id");
    assert_eq!(client.pages("/api/events", Some(middle)), events[events.len() / 2 + 1..]);
    let mut feed = client.stream("/api/events", Some(middle));
    assert_ne!(feed.next().expect("what follows").event, "stream.reset");
    drop(feed);
    let busy = run(&mut compact(&server));
    assert!(busy.code == Some(7) && busy.err.contains("Stop the server"), "{busy:?}");
    let nowhere = run(longhaul(&["compact", "--data-dir"]).arg(server.data_dir().join("none")));
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
}

#[test]
fn a_compaction_cut_short_anywhere_leaves_a_whole_store() {
    let (mut server, events) = stopped();
    let points = ["compact-filled", "compact-synced", "compact-halfway", "compact-swapped", "compact-kept"];
    for point in points {
        for breach in [None, Some("no-exchange")] {
            let mut command = compact(&server);
            command.env("LONGHAUL_CRASH", format!("{point}:1"));
            command.envs(breach.map(|breach| ("LONGHAUL_BREACH", breach)));
            let passes = point != "compact-halfway" || breach.is_some();
            let said = run(&mut command);
            assert_eq!(said.code.is_none(), passes, "{point}: {said:?}");
            server.start_again();
            assert_eq!(server.client().pages("/api/events", None), events, "{point}, {breach:?}: nothing is lost");
            assert_eq!(beside(&server), ["store"], "{point}, {breach:?}");
            server.kill();
            whole(&server.data_dir());
        }
    }
}

#[test]
fn a_compaction_killed_at_any_moment_leaves_a_whole_store() {
    let rounds = if is_long() { 300 } else { 10 };
    let (mut server, events) = stopped();
    for round in 0..rounds {
        let mut child = compact(&server).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        // Wherever it is when so much of it is there: no time is measured.
        let new = server.data_dir().join("store.compact");
        let seen = |at: u64| std::fs::metadata(new.join("db")).is_ok_and(|data| data.len() >= at);
        let mut looks = 0_u64;
        while child.try_wait().expect("it can be asked").is_none() && !seen(round * 40_000) && looks < 1_000_000 {
            looks += 1;
            std::thread::yield_now();
        }
        // It may have ended by itself.
        let _ = child.kill();
        child.wait().expect("reaped");
        whole(&server.data_dir());
    }
    server.start_again();
    assert_eq!(server.client().pages("/api/events", None), events, "nothing is lost");
    assert_eq!(beside(&server), ["store"]);
}
