//! A large body that is damaged while the server runs: a clear 500 to whoever asks for it, and nothing to anybody else.

use std::fs;

use serde_json::json;

use super::told::{STILL, serve, store};

/// Body files were served in ranges without a look at their bytes: a flipped bit was served as the result.
#[test]
fn a_damaged_body_is_a_500_in_any_range_that_touches_it_and_the_server_goes_on() {
    let place = tempfile::tempdir().expect("made");
    fs::write(place.path().join("longhaul.toml"), STILL.replace("workers = 0", "workers = 2")).expect("written");
    let served = serve(place.path());
    let client = &served.client;
    let submit = |bytes: usize| client.submit(json!({"do": "echo", "text": "text ", "bytes": bytes}));
    let (hurt, other) = (submit(400_000), submit(400_000));
    [&hurt, &other].into_iter().for_each(|id| assert_eq!(client.ended(id)["status"], "completed"));
    let file = store(place.path()).join("bodies").join(format!("{hurt}.1.{:016x}", 1));
    let whole = fs::read(&file).expect("there");
    let result = |id: &str, range: &str| {
        let headers = [("accept", "application/json"), ("range", range)];
        client.get_with(&format!("/api/jobs/{id}/result"), &headers)
    };
    assert_eq!(result(&hurt, "bytes=100-299").expect("answers").status, 206);
    // Damage in the fourth block of 64 KiB.
    let mut bytes = whole.clone();
    bytes[200_000] ^= 1;
    fs::write(&file, &bytes).expect("damaged");
    for (range, status) in [
        ("bytes=100-299", 206),
        ("bytes=300000-300099", 206),
        ("bytes=200001-200100", 500),
        ("bytes=190000-210000", 500),
    ] {
        let answer = result(&hurt, range).expect("answers");
        assert_eq!(answer.status, status, "{range}: {answer:?}");
        if status == 500 {
            assert_eq!(answer.json()["code"], "damaged", "{answer:?}");
            assert!(answer.text.contains(&hurt), "it says whose: {answer:?}");
        }
    }
    // More than is read at a time: it begins, and is cut short of its length rather than wrong.
    let begun = result(&hurt, "bytes=0-");
    assert!(begun.is_err() || begun.is_ok_and(|answer| answer.status == 500));
    let inline = client.get(&format!("/api/jobs/{hurt}?inline=true"));
    assert_eq!((inline.status, inline.json()["code"].as_str()), (500, Some("damaged")));
    for lost in [&whole[..whole.len() - 1], b""] {
        fs::write(&file, lost).expect("damaged");
        assert_eq!(result(&hurt, "bytes=0-9").expect("answers").status, 500);
    }
    fs::remove_file(&file).expect("removed");
    assert_eq!(result(&hurt, "bytes=0-9").expect("answers").status, 500);
    assert_eq!(client.job(&hurt)["status"], "completed", "the job itself is there");
    assert_eq!(result(&other, "bytes=0-").expect("answers").json().as_str().map(str::len), Some(400_000));
    assert_eq!(client.get("/healthz").status, 200);
    assert_eq!(client.ended(&submit(10))["status"], "completed");
    fs::write(&file, &whole).expect("mended");
    assert_eq!(result(&hurt, "bytes=0-").expect("answers").json().as_str().map(str::len), Some(400_000));
    assert_eq!(served.end().code, Some(0));
}

/// A job whose payload is damaged fails, and takes nobody with it.
#[test]
fn a_job_whose_payload_is_damaged_fails_and_the_others_run() {
    let place = tempfile::tempdir().expect("made");
    fs::write(place.path().join("longhaul.toml"), STILL).expect("written");
    let served = serve(place.path());
    let hurt = served.client.submit(json!({"do": "noop", "text": "y".repeat(100_000)}));
    let other = served.client.submit(json!({"do": "noop", "text": "y".repeat(100_001)}));
    drop(served);
    let file = store(place.path()).join("bodies").join(format!("{hurt}.0.{:016x}", 0));
    let mut bytes = fs::read(&file).expect("there");
    bytes[70_000] ^= 1;
    fs::write(&file, bytes).expect("damaged");
    fs::write(place.path().join("longhaul.toml"), STILL.replace("workers = 0", "workers = 2")).expect("written");
    let served = serve(place.path());
    assert_eq!(served.client.ended(&other)["status"], "completed");
    let last = served.client.stream(&format!("/api/jobs/{hurt}/events"), None).last().expect("an end");
    assert_eq!(last.event, "job.failed");
    let asked = served.client.get(&format!("/api/jobs/{hurt}"));
    assert_eq!((asked.status, asked.json()["code"].as_str()), (500, Some("damaged")), "its answer has the payload");
    assert_eq!(served.client.get("/healthz").status, 200);
    assert_eq!(served.end().code, Some(0));
    let verified = super::served::verify(place.path());
    assert!(verified.code == Some(6) && verified.said.contains(&hurt), "{verified:?}");
}
