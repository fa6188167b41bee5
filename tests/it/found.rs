//! Which server a client command asks that is told none: the one of this directory, by its configuration or by what it has written down.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use crate::support::server::binary;

/// Answers one request as an empty list; joined, it gives the request.
fn listening() -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let server = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut head = Vec::new();
            let mut buffer = [0; 4096];
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer).expect("a request") {
                    // Somebody only looked whether we are there.
                    0 => break,
                    length => head.extend_from_slice(&buffer[..length]),
                }
            }
            if !head.is_empty() {
                let body = "{\"jobs\":[]}";
                let answer =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).expect("it reads");
                return String::from_utf8_lossy(&head).into_owned();
            }
        }
    });
    (address, server)
}

/// `longhaul list` there: exit code and stderr.
fn list(dir: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(binary());
    command.arg("list").args(arguments).current_dir(dir).env_remove("LONGHAUL_SERVER").env_remove("LONGHAUL_TOKEN");
    let output = command.envs(variables.iter().copied()).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Asks there, and sees that this server was asked.
fn asks(dir: &Path, variables: &[(&str, &str)], arguments: &[&str], server: JoinHandle<String>) -> String {
    let (code, stderr) = list(dir, variables, arguments);
    assert_eq!(code, Some(0), "{stderr}");
    server.join().expect("it was asked")
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_what_the_directory_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let nobody = "http://127.0.0.1:1";
    std::fs::write(dir.join("longhaul.toml"), "[server]\nlisten = \"127.0.0.1:2\"\n").expect("written");
    let (address, server) = listening();
    asks(dir, &[("LONGHAUL_SERVER", nobody)], &["--server", &format!("http://{address}")], server);
    let (address, server) = listening();
    asks(dir, &[("LONGHAUL_SERVER", &format!("http://{address}"))], &[], server);
    // The file names a port where nobody is, and is named as who said so.
    let (code, stderr) = list(dir, &[("LONGHAUL_SERVER", "")], &[]);
    assert_eq!(code, Some(4));
    assert!(stderr.contains("no server at http://127.0.0.1:2, where longhaul.toml says that it is"), "{stderr}");
}

#[test]
fn the_directory_says_by_its_configuration_or_its_data_where_the_server_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("written");
    // As it is configured, also beside mistakes; for all addresses by loopback; the token is the client's own.
    let (address, server) = listening();
    let port = address.rsplit(':').next().expect("a port");
    write(
        "longhaul.toml",
        &format!("[server]\nlisten = \"0.0.0.0:{port}\"\nnonsense = 1\n[[auth.tokens]]\nname = \"x\"\n"),
    );
    let asked = asks(dir, &[("LONGHAUL_TOKEN", "lh_mine")], &[], server).to_ascii_lowercase();
    assert!(asked.contains(&format!("host: 127.0.0.1:{port}")) && asked.contains("bearer lh_mine"), "{asked}");
    // As it has written down where the configuration has its data: that is where it really is.
    std::fs::create_dir(dir.join("elsewhere")).expect("made");
    write("longhaul.toml", "[server]\nlisten = \"127.0.0.1:2\"\ndata_dir = \"elsewhere\"\n");
    let (address, server) = listening();
    write("elsewhere/address", &format!("http://{address} serve\n"));
    asks(dir, &[], &[], server);
    // The same without any configuration.
    std::fs::remove_file(dir.join("longhaul.toml")).expect("removed");
    std::fs::create_dir(dir.join("data")).expect("made");
    let (address, server) = listening();
    write("data/address", &format!("http://{address} serve\n"));
    asks(dir, &[], &[], server);
    // One that is gone, and one that is none of this machine's, are passed over.
    let (address, server) = listening();
    for gone in ["http://127.0.0.1:1 stdio\n", "http://192.0.2.1:80 serve\n"] {
        write("data/address", gone);
        let (code, stderr) = list(dir, &[("LONGHAUL_SERVER_LISTEN", "127.0.0.1:3")], &[]);
        assert!(code == Some(4) && stderr.contains("no server at http://127.0.0.1:3"), "{stderr}");
    }
    asks(dir, &[("LONGHAUL_SERVER_LISTEN", &address)], &[], server);
}

#[test]
fn a_configuration_that_cannot_be_read_is_told_and_not_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("longhaul.toml"), "[server\n").expect("written");
    let (_, stderr) = list(dir.path(), &[], &[]);
    assert!(
        stderr.contains("not asked where the server is:") && stderr.contains("line 1 of longhaul.toml"),
        "{stderr}"
    );
}
