//! Each way in which a backup or a restore does not happen, with its exit code, and what is left: nothing.

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> = entries.map(|e| e.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_that_cannot_be_had_leaves_no_file() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b.gz");
    let gone = with_path(&["backup", "--server", "http://127.0.0.1:9"], &file);
    assert_eq!((gone.code, names(place.path())), (Some(4), Vec::new()), "{gone:?}");
    let server = Server::start(TRIAL);
    assert_eq!(back_up(&server, &file).code, Some(0));
    let before = std::fs::read(&file).expect("written");
    let again = back_up(&server, &file);
    assert!(again.code == Some(2) && again.err.contains("--force"), "{again:?}");
    assert_eq!(std::fs::read(&file).expect("there"), before);
    let forced = with_path(&["backup", "--force", "--server", &url(&server)], &file);
    assert!(forced.code == Some(0) && forced.out.contains("0 jobs"), "{forced:?}");
    assert_eq!(names(place.path()), ["b.gz"]);
}

#[test]
fn a_backup_needs_the_scope_admin_and_only_one_is_taken_at_a_time() {
    let token = |name: &str, scope: &str| {
        let said = run(&mut longhaul(&["token", "new", "--name", name, "--scopes", scope]));
        let (token, lines) = said.out.split_once('\n').expect("a token and its lines");
        (token.to_owned(), lines.to_owned())
    };
    let ((ann, ann_in), (root, root_in)) = (token("ann", "read"), token("root", "admin"));
    let server = Server::start(&format!("{TRIAL}\n{ann_in}\n{root_in}"));
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b.gz");
    let ask =
        |token: &str| run(longhaul(&["backup", "--server", &url(&server)]).arg(&file).env("LONGHAUL_TOKEN", token));
    let said = ask(&ann);
    assert!(said.code == Some(5) && said.err.contains("admin"), "{said:?}");
    assert_eq!(ask("lh_wrong").code, Some(5));
    assert_eq!(ask(&root).code, Some(0));
    let other = server.client().with_token(&root);
    let head = other.head("/api/backup");
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/gzip")), "it begins nothing");
}

#[test]
fn a_restore_happens_only_where_nothing_is() {
    let mut server = Server::start(TRIAL);
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b.gz");
    assert_eq!(back_up(&server, &file).code, Some(0));
    let said = restore(&file, &server.data_dir());
    assert!(said.code == Some(2) && said.err.contains("not empty"), "{said:?}");
    server.kill();
    whole(&server.data_dir());
    let said = restore(&place.path().join("none"), &place.path().join("data"));
    assert_eq!(said.code, Some(2), "{said:?}");
    let bytes = std::fs::read(&file).expect("written");
    std::fs::write(&file, &bytes[..bytes.len() - 9]).expect("torn");
    let said = restore(&file, &place.path().join("data"));
    assert!(said.code == Some(6) && said.err.contains("line "), "{said:?}");
    assert_eq!(names(place.path()), ["b.gz"], "nothing is left behind");
}

#[test]
fn a_restore_that_is_killed_leaves_nothing_in_the_way_of_the_next() {
    let server = Server::start(TRIAL);
    let client = server.client();
    let ids: Vec<String> = (0..30).map(|_| client.submit(json!({"do": "noop"}))).collect();
    ids.iter().for_each(|id| drop(client.ended(id)));
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("b.gz");
    assert_eq!(back_up(&server, &file).code, Some(0));
    for point in ["restore-filled", "restore-synced"] {
        let data = place.path().join(point);
        let mut command = longhaul(&["restore"]);
        command.arg(&file).arg("--data-dir").arg(&data).env("LONGHAUL_CRASH", format!("{point}:1"));
        assert_eq!(run(&mut command).code, None, "it died of a signal");
        assert!(!data.join("store").exists(), "{point}");
        assert_eq!(restore(&file, &data).code, Some(0), "{point}");
        assert_eq!(names(&data), ["store"], "{point}");
        whole(&data);
    }
}
