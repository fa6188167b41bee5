//! `longhaul verify` from outside: whole, in use, damaged; each with its exit code.

use std::process::{Command, Output};

use super::support::{Server, TRIAL};

fn verify(dir: &std::path::Path) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_longhaul");
    let Output { status, stdout, stderr } =
        Command::new(program).args(["verify", "--data-dir"]).arg(dir).output().expect("the program runs");
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn a_store_is_whole_after_a_kill_and_locked_while_it_is_served() {
    let mut server = Server::start(TRIAL);
    let dir = server.data_dir();
    let made = server.client().post("/api/jobs", &serde_json::json!({"type": "trial", "payload": {"do": "noop"}}));
    assert_eq!(made.status, 201, "{made:?}");
    let (code, said) = verify(&dir);
    assert_eq!(code, Some(7), "{said}");
    server.kill();
    let (code, said) = verify(&dir);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("ok: 1 jobs"), "{said}");
    let output =
        Command::new(env!("CARGO_BIN_EXE_longhaul")).args(["verify", "--json", "--data-dir"]).arg(&dir).output();
    let told: serde_json::Value = serde_json::from_slice(&output.expect("the program runs").stdout).expect("JSON");
    assert_eq!((&told["ok"], &told["jobs"], &told["complaints"]), (&true.into(), &1.into(), &serde_json::json!([])));
    let data = dir.join("store").join("db");
    let mut bytes = std::fs::read(&data).expect("the data file");
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    std::fs::write(&data, bytes).expect("damaged");
    let (code, said) = verify(&dir);
    assert_eq!(code, Some(6), "{said}");
}
