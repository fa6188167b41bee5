//! The client commands against a server that answers by a script: exit codes, what is printed where, and `watch` over
//! restarts, resets and ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::thread::JoinHandle;

use super::support::{Server, TRIAL};

const ID: &str = "0192f0c1-2b3c-7d4e-8f5a-6b7c8d9e0f1a";

/// What the scripted server does with the next connection.
enum Step {
    /// Answers with these bytes and closes.
    Answer(String),
    /// Answers, closes, and gives up its port: killed. The next step has the port again.
    AnswerAndDie(String),
}

/// A server that plays its script; joined, it gives the heads and bodies of the requests.
fn play(script: Vec<Step>) -> (String, JoinHandle<Vec<String>>) {
    let mut listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let server = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for step in script {
            let (mut stream, _) = listener.accept().expect("a client");
            requests.push(request(&mut stream));
            match step {
                Step::Answer(text) => answer(stream, &text),
                Step::AnswerAndDie(text) => {
                    drop(listener);
                    answer(stream, &text);
                    listener = again(address);
                }
            }
        }
        requests
    });
    (format!("http://{address}"), server)
}

/// The same port once more; another process may hold it for an instant.
fn again(address: SocketAddr) -> TcpListener {
    loop {
        if let Ok(listener) = TcpListener::bind(address) {
            return listener;
        }
        std::thread::yield_now();
    }
}

fn answer(mut stream: TcpStream, text: &str) {
    // The client may have heard enough and left.
    let _ = stream.write_all(text.as_bytes());
}

/// Head and body of one request.
fn request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer).expect("a request");
        text.extend_from_slice(&buffer[..length]);
        let so_far = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = so_far.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let size = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let size: usize = size.and_then(|size| size.trim().parse().ok()).unwrap_or(0);
            if body.len() >= size {
                return so_far;
            }
        }
        assert!(length > 0, "the request ended early: {so_far}");
    }
}

fn json(status: &str, body: &str) -> Step {
    let kind = if status.starts_with('2') { "application/json" } else { "application/problem+json" };
    let length = body.len();
    Step::Answer(format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))
}

/// A stream that is never ended in due form, as of a server that was killed.
fn stream(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nretry: 20\n: hello\n\n{body}"
    )
}

fn event(id: &str, kind: &str, payload: &str) -> String {
    format!(
        "id: {id}\nevent: {kind}\ndata: {{\"event_id\":\"{id}\",\"type\":\"{kind}\",\"job_id\":\"{ID}\",\
         \"timestamp\":\"2026-11-30T12:00:00.000Z\",\"payload\":{payload}}}\n\n"
    )
}

fn run(arguments: &[&str], server: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(arguments).env("LONGHAUL_SERVER", server).env("LONGHAUL_TOKEN", "lh_secret");
    command.output().expect("the program runs")
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Arguments, what the server answers, the exit code, and parts of stdout and stderr.
fn check(arguments: &[&str], script: Vec<Step>, code: i32, out: &str, err: &str) -> Vec<String> {
    let (url, server) = play(script);
    let output = run(arguments, &url);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stdout}{stderr}");
    assert!(stdout.contains(out) && stderr.contains(err), "{arguments:?}:\nstdout {stdout}\nstderr {stderr}");
    server.join().expect("the script was played to its end")
}

fn job(status: &str, more: &str) -> String {
    format!("{{\"id\":\"{ID}\",\"type\":\"t\",\"status\":\"{status}\",\"attempts\":1,\"maxAttempts\":5{more}}}")
}

#[test]
fn each_ending_has_its_exit_code() {
    let problem = |code: &str| format!("{{\"code\":\"{code}\",\"detail\":\"why\"}}");
    let ok = |body: String| vec![json("200 OK", &body)];
    check(&["get", ID], ok(job("completed", "")), 0, "completed", "");
    check(&["get", ID, "--json"], ok(job("failed", "")), 0, "{\"id\":", "");
    check(&["get", ID], vec![json("404 Not Found", &problem("no_such_job"))], 5, "", "refused (404 no_such_job): why");
    check(&["get", ID], vec![json("401 Unauthorized", &problem("unauthenticated"))], 5, "", "LONGHAUL_TOKEN");
    check(&["get", ID], vec![json("200 OK", "<html>")], 5, "", "is this a longhaul server?");
    check(&["get", ID], vec![json("502 Bad Gateway", "<html>")], 5, "", "is this a longhaul server?");
    check(
        &["cancel", ID],
        vec![json("202 Accepted", &job("in_progress", ""))],
        0,
        &format!("{ID} is being stopped\n"),
        "",
    );
    check(&["cancel", ID], ok(job("completed", "")), 0, &format!("{ID} is completed\n"), "");
    check(&["answer", ID, "k"], ok(job("pending", "")), 0, &format!("{ID} is pending\n"), "");
    check(&["retry", ID], vec![json("201 Created", &job("pending", ""))], 0, ID, "");
    check(&["submit", "t"], vec![json("201 Created", &job("pending", ""))], 0, ID, "");
    for (kind, code) in [("job.completed", 0), ("job.failed", 1), ("job.canceled", 3)] {
        let told = stream(&event("00000001-7", kind, "{\"reason\":\"user\",\"error\":\"e\",\"class\":\"fatal\"}"));
        check(&["watch", ID], vec![Step::Answer(told)], code, kind, "");
    }
}

#[test]
fn what_makes_no_sense_is_told_before_anybody_is_asked() {
    let nobody = "http://127.0.0.1:1";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["get", "../admin"], 2, "is no job id"),
        (&["watch", "x"], 2, "is no job id"),
        (&["submit", "t", "{"], 2, "is no JSON"),
        (&["submit", "t", "@/nonexistent"], 2, "/nonexistent"),
        (&["submit", "t", "--delay", "soon"], 2, "expected a duration such as 250ms"),
        (&["submit", "t", "--expires", "1"], 2, "--expires 1: expected a duration such as 250ms"),
        (&["submit", "t", "--delay", "1s", "--run-at", "2027-01-31T12:00:00Z"], 2, "cannot be used with"),
        (&["log", "x"], 2, "is no job id"),
        (&["get", ID, "--server", "localhost"], 2, "is no URL such as"),
        (&["frobnicate"], 2, "unrecognized subcommand"),
        (&["token", "new", "--name", "a b"], 2, "visible ASCII"),
        (&["token", "new", "--name", "ci", "--scopes", "root"], 2, "expected a list of"),
        (&["verify", "--data-dir", "/nonexistent"], 2, "there is no store in /nonexistent (--data-dir)"),
        (&["compact", "--data-dir", "/nonexistent"], 2, "there is no store in /nonexistent (--data-dir)"),
        (&["submit", "t", "@Cargo.toml"], 2, "jq -Rs '{text: .}' Cargo.toml"),
        (&["config", "check", "--config", "/nonexistent"], 2, "cannot be opened"),
        (&["get", ID], 4, "Start one with `longhaul serve`"),
        (&["watch"], 4, "no server at http://127.0.0.1:1"),
    ];
    for (arguments, code, expected) in cases {
        let output = run(arguments, nobody);
        let (stdout, stderr) = texts(&output);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected) && stdout.is_empty(), "{arguments:?}: {stdout}{stderr}");
    }
}

#[test]
fn a_submit_sends_what_it_was_told_and_names_each_refused_field() {
    let made = vec![json("201 Created", &job("pending", ""))];
    let sent = check(&["submit", "t", "{\"b\": 1.50}", "--key", "k", "--delay", "2s"], made, 0, ID, "");
    for part in ["POST /api/jobs ", "Bearer lh_secret", "{\"b\": 1.50}", "\"idempotencyKey\":\"k\"", "\"delayMs\":2000"]
    {
        assert!(sent[0].contains(part), "{part} in {}", sent[0]);
    }
    let made = vec![json("201 Created", &job("pending", ""))];
    let more =
        ["--run-at", "2027-01-31T12:00:00Z", "--priority", "-3", "--expires", "1h", "--tag", "a", "--tag", "b c"];
    let sent = check(&[&["submit", "t"][..], &more[..]].concat(), made, 0, ID, "");
    let all = "{\"type\":\"t\",\"payload\":{},\"runAt\":\"2027-01-31T12:00:00Z\",\"priority\":-3,\"expiresInMs\":3600000,\"tags\":[\"a\",\"b c\"]}";
    assert!(sent[0].ends_with(all), "{}", sent[0]);
    let errors = "{\"code\":\"schema\",\"errors\":[{\"pointer\":\"/a\",\"message\":\"x\"},{\"pointer\":\"/b\",\"message\":\"y\"}]}";
    check(&["submit", "t"], vec![json("422 Unprocessable Entity", errors)], 5, "", "  /a: x\n  /b: y");
}

#[test]
fn a_submit_that_waits_prints_the_result_alone_on_stdout() {
    let story = event("00000001-1", "job.created", "{\"type\":\"t\"}") + &event("00000001-2", "job.completed", "{}");
    let with_result = |more: &str| {
        let ended = job("completed", more);
        vec![json("201 Created", &job("pending", "")), Step::Answer(stream(&story)), json("200 OK", &ended)]
    };
    for (more, printed) in
        [(",\"result\":{\"b\":1}", "{\"b\":1}\n"), (",\"result\":\"text\"", "text\n"), ("", "null\n")]
    {
        let (url, server) = play(with_result(more));
        let output = run(&["submit", "t", "--wait"], &url);
        let (stdout, stderr) = texts(&output);
        assert_eq!((output.status.code(), stdout.as_str()), (Some(0), printed), "{stderr}");
        assert!(stderr.starts_with(ID) && stderr.contains("job.created t"), "{stderr}");
        server.join().expect("played");
    }
    let mut large = with_result(",\"resultUrl\":\"/api/jobs/x/result\"");
    large.push(json("200 OK", "[1,2,3]"));
    let sent = check(&["submit", "t", "--wait"], large, 0, "[1,2,3]\n", "");
    assert!(sent[3].starts_with(&format!("GET /api/jobs/{ID}/result ")), "{}", sent[3]);
}

#[test]
fn a_watch_says_why_a_program_failed_as_only_the_owner_may_read_it() {
    let ended = "the program exited with status 65";
    let failed = format!("{{\"error\":\"{ended}\",\"class\":\"permanent\",\"code\":\"exit_65\",\"attempts\":1}}");
    let error = |attempt: u32, said: &str| {
        format!(",\"error\":{{\"class\":\"permanent\",\"message\":\"{ended}: {said}\",\"attempt\":{attempt}}}")
    };
    let story = || stream(&event("00000001-7", "job.failed", &failed));
    let whole = || json("200 OK", &job("failed", &error(1, "no column")));
    check(&["watch", ID], vec![Step::Answer(story()), whole()], 1, &format!("{ended}: no column (permanent"), "");
    let waited = vec![json("201 Created", &job("pending", "")), Step::Answer(story()), whole()];
    check(&["submit", "t", "--wait"], waited, 1, "", &format!("{ended}: no column (permanent"));
    // Of another attempt, or not to be had: the event says enough. Scripts get the event as it is.
    for other in
        [json("200 OK", &job("failed", &error(2, "other"))), json("404 Not Found", "{\"code\":\"no_such_job\"}")]
    {
        check(&["watch", ID], vec![Step::Answer(story()), other], 1, &format!("{ended} (permanent"), "");
    }
    check(&["watch", ID, "--json"], vec![Step::Answer(story())], 1, &failed, "");
}

#[test]
fn a_log_is_told_line_by_line_page_by_page() {
    let page = |lines: &str, cursor: &str, more: bool| {
        json("200 OK", &format!("{{\"lines\":[{lines}],\"cursor\":\"{cursor}\",\"hasMore\":{more}}}"))
    };
    let line = |level: &str, message: &str| format!("{{\"claim\":1,\"level\":\"{level}\",\"message\":\"{message}\"}}");
    let pages = || vec![page(&line("info", "one"), "1-4", true), page(&line("warning", "a\\u001b[2Jb"), "1-9", false)];
    let sent = check(&["log", ID], pages(), 0, "one\nwarning: a\u{fffd}[2Jb\n", "");
    assert!(sent[0].starts_with(&format!("GET /api/jobs/{ID}/log ")), "{}", sent[0]);
    assert!(sent[1].starts_with(&format!("GET /api/jobs/{ID}/log?cursor=1-4 ")), "{}", sent[1]);
    check(&["log", ID, "--json"], pages(), 0, &format!("{}\n", line("info", "one")), "");
}

#[test]
fn a_followed_log_is_told_whenever_an_attempt_has_ended_and_over_a_broken_stream() {
    let page = |message: &str, cursor: &str| {
        let line = format!("{{\"claim\":1,\"level\":\"info\",\"message\":\"{message}\"}}");
        json("200 OK", &format!("{{\"lines\":[{line}],\"cursor\":\"{cursor}\",\"hasMore\":false}}"))
    };
    let nothing = || json("200 OK", "{\"lines\":[],\"cursor\":\"2-4\",\"hasMore\":false}");
    let retry = event("00000001-12", "job.progress", "{\"retry\":1,\"error\":\"e\"}");
    let quiet = event("00000001-13", "job.progress", "{\"step\":1}");
    let script = vec![
        page("one", "1-4"),
        json("200 OK", &job("in_progress", "")),
        Step::Answer(stream(&(retry + &quiet))),
        page("two", "2-4"),
        Step::Answer(stream(&event("00000001-14", "job.completed", "{}"))),
        page("three", "3-6"),
        nothing(),
    ];
    let (url, server) = play(script);
    let output = run(&["log", "--follow", ID], &url);
    let (stdout, stderr) = texts(&output);
    let requests = server.join().expect("played");
    assert_eq!((output.status.code(), stdout.as_str()), (Some(0), "one\ntwo\nthree\n"), "{stderr}");
    assert!(requests[3].contains("cursor=1-4 ") && requests[5].contains("cursor=2-4 "), "{requests:?}");
    assert!(stderr.contains("reconnecting"), "{stderr}");
    // Of a job that has ended there is nothing to wait for.
    check(&["log", "-f", ID], vec![page("all", "1-4"), json("200 OK", &job("failed", ""))], 0, "all\n", "");
}

#[test]
fn a_list_goes_on_from_page_to_page() {
    let page = |status: &str, next: &str| json("200 OK", &format!("{{\"jobs\":[{}]{next}}}", job(status, "")));
    let pages = || vec![page("failed", ",\"nextCursor\":\"c/1\""), page("pending", "")];
    let sent = check(&["list", "--status", "failed", "--tag", "a&b"], pages(), 0, "\tt\tpending\t1/5", "");
    assert!(sent[0].starts_with("GET /api/jobs?status=failed&tag=a%26b&limit=50 "), "{}", sent[0]);
    assert!(sent[1].contains("&limit=49&cursor=c%2F1 "), "{}", sent[1]);
    let (url, server) = play(pages());
    let (stdout, _) = texts(&run(&["list", "--json"], &url));
    assert_eq!(stdout.lines().filter(|line| line.starts_with("{\"id\":")).count(), 2, "{stdout}");
    server.join().expect("played");
}

#[test]
fn a_list_takes_every_filter_that_the_server_has() {
    let empty = vec![json("200 OK", "{\"jobs\":[]}")];
    let filters = ["--type", "t", "--owner", "ann", "--created-after", "2027-01-31T12:00:00Z", "--created-before"];
    let more = ["2027-02-01T12:00:00Z", "--pending-longer-than", "5m", "--dead-lettered", "--limit", "3"];
    let sent = check(&[&["list"], &filters[..], &more[..]].concat(), empty, 0, "", "");
    let query = "type=t&owner=ann&createdAfter=2027-01-31T12%3A00%3A00Z&createdBefore=2027-02-01T12%3A00%3A00Z&pendingLongerThan=5m\
                 &deadLettered=true&limit=3 ";
    assert!(sent[0].starts_with(&format!("GET /api/jobs?{query}")), "{}", sent[0]);
}

#[test]
fn a_watch_goes_on_over_a_killed_server_and_tells_each_event_once() {
    let step = |n: u32| event(&format!("00000001-{}", 10 + n), "job.progress", &format!("{{\"step\":{n}}}"));
    let (half, _) = step(3).split_once("payload").map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a payload");
    let busy = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned();
    let script = vec![
        Step::AnswerAndDie(stream(&(step(1) + &step(2) + &half))),
        Step::Answer(busy),
        // A server that sends again what it had sent is not believed.
        Step::AnswerAndDie(stream(&(step(2) + &step(3) + "id: 00000001-19\n\n"))),
        Step::Answer(stream(&(step(10) + &event("00000001-21", "job.completed", "{}")))),
    ];
    let (url, server) = play(script);
    let output = run(&["watch", ID], &url);
    let (stdout, stderr) = texts(&output);
    let requests = server.join().expect("played");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let told: Vec<&str> = stdout.lines().map(|line| line.split_once("job.").map_or(line, |(_, what)| what)).collect();
    assert_eq!(told, ["progress step 1", "progress step 2", "progress step 3", "progress step 10", "completed"]);
    assert_eq!(stderr.matches("reconnecting").count(), 2, "once for each time it was lost: {stderr}");
    let cursor = |at: usize| {
        requests[at].to_ascii_lowercase().lines().find_map(|l| l.strip_prefix("last-event-id: ").map(str::to_owned))
    };
    let cursors: Vec<Option<String>> = (0..4).map(cursor).collect();
    let expected = [None, Some("00000001-12"), Some("00000001-12"), Some("00000001-19")].map(|c| c.map(str::to_owned));
    assert_eq!(cursors, expected);
}

#[test]
fn a_log_that_begins_again_is_said_and_not_told_twice() {
    let told = event("00000001-5", "job.created", "{\"type\":\"t\"}");
    let reset = "event: stream.reset\ndata: {\"reason\":\"other_log\",\"firstEventId\":\"00000002-5\"}\n\n".to_owned();
    let restored = event("00000002-5", "job.created", "{\"type\":\"t\"}") + &event("00000002-6", "job.canceled", "{}");
    let script = vec![Step::AnswerAndDie(stream(&told)), Step::Answer(stream(&(reset + &restored)))];
    let (url, server) = play(script);
    let output = run(&["watch", ID], &url);
    let (stdout, stderr) = texts(&output);
    server.join().expect("played");
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_eq!((stdout.matches("job.created").count(), stdout.lines().count()), (1, 2), "{stdout}");
    assert!(stderr.contains("another log than before"), "{stderr}");
}

#[test]
fn a_stream_that_has_nothing_more_to_say_ends_the_watch() {
    let ended = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned();
    let created = stream(&event("00000001-5", "job.created", "{\"type\":\"t\"}"));
    let script = vec![Step::AnswerAndDie(created), Step::Answer(ended), json("200 OK", &job("failed", ""))];
    check(&["watch", ID], script, 1, "job.created", "");
}

#[test]
fn a_watch_of_a_forgotten_job_is_refused() {
    let gone = json("404 Not Found", "{\"code\":\"no_such_job\",\"detail\":\"no such job\"}");
    let created = stream(&event("00000001-5", "job.created", "{\"type\":\"t\"}"));
    check(&["watch", ID], vec![Step::AnswerAndDie(created), gone], 5, "job.created", "no_such_job");
}

#[test]
fn nothing_in_an_event_steers_the_terminal() {
    let nasty = event("00000001-5", "job.progress", "{\"message\":\"a\\u001b[2Jb\"}");
    let end = event("00000001-6", "job.completed", "{}");
    check(&["watch", ID], vec![Step::Answer(stream(&(nasty + &end)))], 0, "a\u{fffd}[2Jb", "");
}

#[test]
fn a_configuration_is_checked_without_a_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).expect("written");
        let output = run(&["config", "check", "--config", file.to_str().expect("text")], "");
        let (stdout, stderr) = texts(&output);
        (output.status.code(), stdout, stderr)
    };
    assert_eq!(check("").1, "ok; tools: start_deep_analysis\n");
    let (code, stdout, stderr) =
        check("[tools.t]\ndescription = 'd'\nrun = { kind = 'command', command = ['no-such-program'] }\n");
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(
        stderr.contains("(line 3 of ") && stderr.contains("there is no program no-such-program in PATH"),
        "{stderr}"
    );
    let output = run(&["config", "check", "--json", "--config", file.to_str().expect("text")], "");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (output.status.code(), &told["ok"], &told["complaints"][0]["key"]),
        (Some(2), &false.into(), &"tools.t.run.command".into())
    );
    let (code, stdout, stderr) = check("[queue]\nworker = 1\nworkers = 'x'\n");
    assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 2), "{stderr}");
    assert!(stderr.contains("did you mean `queue.workers`?") && stderr.contains("(line 3 of "), "{stderr}");
}

#[test]
fn what_a_server_would_start_with_is_told_as_a_warning_beside_what_it_would_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.toml");
    let text = "[tools.t]\ndescription = 'd'\nrun = { kind = 'command', command = ['no-such-program'] }\n[queue]\nworkers = 'x'\n";
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("text");
    let (_, stderr) = texts(&run(&["config", "check", "--config", file], ""));
    let [first, second] = stderr.lines().collect::<Vec<_>>()[..] else { panic!("two complaints: {stderr}") };
    assert!(first.starts_with("longhaul: warning: tools.t.run.command (line 3 of "), "{first}");
    assert!(second.starts_with("queue.workers = 'x' (line 5 of "), "{second}");
    let output = run(&["config", "check", "--json", "--config", file], "");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let severities = [&told["complaints"][0]["severity"], &told["complaints"][1]["severity"]];
    assert_eq!((output.status.code(), severities), (Some(2), [&"warning".into(), &"error".into()]));
}

#[test]
fn the_store_of_the_configuration_is_the_one_that_is_verified_and_compacted() {
    for command in ["verify", "compact"] {
        let mut longhaul = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let output = longhaul.arg(command).env("LONGHAUL_SERVER_DATA_DIR", "/nonexistent").output().expect("it runs");
        let said = texts(&output).1;
        assert_eq!(
            (output.status.code(), said.as_str()),
            (Some(2), "longhaul: there is no store in /nonexistent (--data-dir)\n")
        );
    }
}

/// A server that refused a payload while it was still written was said not to be there.
#[test]
fn a_payload_that_is_too_large_is_refused_by_the_server_that_was_asked() {
    let server = Server::start(TRIAL);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("big.json");
    let url = format!("http://{}", server.address());
    let submit = |bytes: usize| {
        std::fs::write(&file, serde_json::json!({ "do": "noop", "text": "x".repeat(bytes) }).to_string())
            .expect("written");
        let output = run(&["submit", "trial", &format!("@{}", file.display())], &url);
        (output.status.code(), texts(&output).1)
    };
    for bytes in [2 << 20, 64 << 20] {
        let (code, said) = submit(bytes);
        assert!(code == Some(5) && said.contains("refused (413 too_large): "), "{code:?} {said}");
    }
    assert_eq!(submit(512 << 10), (Some(0), String::new()));
}

#[test]
fn a_server_that_went_away_in_the_middle_of_an_answer_is_not_said_never_to_have_been_there() {
    for arguments in [&["get", ID][..], &["submit", "t"]] {
        let (url, server) = play(vec![Step::Answer(String::new())]);
        let output = run(arguments, &url);
        let said = texts(&output).1;
        assert!(output.status.code() == Some(4) && said.contains("The connection was made, and broke"), "{said}");
        assert!(!said.contains("no server"), "{said}");
        server.join().expect("it was asked");
    }
}

#[test]
fn a_token_can_be_had_as_json() {
    let output = run(&["token", "new", "--name", "ci", "--json"], "");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(told["token"].as_str().is_some_and(|token| token.starts_with("lh_")), "{told}");
    assert_eq!((&told["name"], &told["scopes"]), (&"ci".into(), &serde_json::json!(["submit", "read"])));
    assert!(told["toml"].as_str().is_some_and(|toml| toml.contains(told["hash"].as_str().expect("a hash"))), "{told}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
