//! Resources, prompts and completion, in every revision.

use serde_json::{Value, json};

use super::rig::{REVISIONS, Rig, message, modern, modern_headers, request};
use crate::mcp::prompts::{Argument, Ask, Block, Message, Prompt, Role};
use crate::mcp::resources::{Content, JOBS_LISTED_MAX, Label, PAGE_MAX, Pattern, Resource, Stock, Template};
use crate::mcp::{Fillable, Options};
use crate::service::Viewer;

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn label(mime_type: &str) -> Label {
    Label { name: "n".into(), title: Some("T".into()), description: None, mime_type: mime_type.into() }
}

fn stock(resources: usize) -> Stock {
    let resource = |n| Resource {
        uri: format!("test://{n}"),
        label: label("text/plain"),
        content: Content::Text(format!("text {n}")),
    };
    let blob = Resource { uri: "test://blob".into(), label: label("image/png"), content: Content::Blob("AAAA".into()) };
    let template = Template {
        uri: "test://item/{id}/data".into(),
        pattern: Pattern::new("test://item/{id}/data").expect("a template"),
        label: label("application/json"),
        text: Fillable::new(r#"{"id":"{id}"}"#, &["id"]),
        suggestions: [("id".to_owned(), vec!["alpha".to_owned(), "beta".into()])].into(),
    };
    Stock { resources: (0..resources).map(resource).chain([blob]).collect(), templates: vec![template] }
}

fn argument(name: &str, required: bool) -> Argument {
    Argument { name: name.into(), title: None, description: None, required, values: Vec::new(), ask: None }
}

fn prompts() -> Vec<Prompt> {
    let names = ["topic", "tone", "place"];
    let text = |text: &str| Message { role: Role::User, block: Block::Text(Fillable::new(text, &names)) };
    let resource = Block::Resource {
        uri: Fillable::new("app:{place}", &names),
        mime_type: "application/json".into(),
        text: Fillable::new(r#"{"tone":"{tone}"}"#, &names),
    };
    let image = Block::Image { base64: "AAAA".into(), mime_type: "image/png".into() };
    let tone = Argument { values: vec!["Dry".into(), "warm".into()], ..argument("tone", false) };
    let plain = Prompt {
        name: "write".into(),
        title: None,
        description: "Writes.".into(),
        arguments: vec![argument("topic", true), tone, argument("place", false)],
        messages: vec![
            text("About {topic}, {tone}."),
            Message { role: Role::User, block: resource },
            Message { role: Role::Assistant, block: image },
        ],
    };
    let ask = Ask::new("Which topic?".into(), None).expect("a schema");
    let asking = Prompt {
        name: "ask".into(),
        arguments: vec![Argument { ask: Some(ask), ..argument("topic", true) }],
        messages: vec![text("About {topic}.")],
        ..plain.clone()
    };
    vec![plain, asking]
}

async fn rig(resources: usize) -> Rig {
    Rig::with(Options { stock: stock(resources), prompts: prompts(), ..Options::default() }).await
}

/// Sends a request; the whole answer.
async fn send(rig: &Rig, revision: &str, method: &str, params: Value) -> Value {
    if revision == "2026-07-28" {
        return send_modern(rig, method, params, json!({})).await;
    }
    let session = rig.open(revision).await;
    let answer = rig.post(&[("mcp-session-id", &session)], &request(1, method, params)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    message(&answer)
}

async fn send_modern(rig: &Rig, method: &str, params: Value, capabilities: Value) -> Value {
    let name = ["name", "uri"].iter().find_map(|key| params[*key].as_str()).map(str::to_owned);
    let mut body = modern(method, params, json!({}));
    body["params"]["_meta"][CAPABILITIES] = capabilities;
    message(&rig.post(&modern_headers(method, name.as_deref()), &body).await)
}

async fn read(rig: &Rig, revision: &str, uri: &str) -> Value {
    send(rig, revision, "resources/read", json!({"uri": uri})).await
}

#[tokio::test]
async fn a_job_is_a_resource_like_get_job_and_its_result_another() {
    let rig = rig(0).await;
    let id = rig.start(json!({"secret": "s3cret", "result": {"a": 1}})).await;
    rig.ended(&id).await;
    for revision in REVISIONS {
        let job = read(&rig, revision, &format!("job://{id}")).await["result"].take();
        let contents = &job["contents"][0];
        assert_eq!(
            (&contents["uri"], &contents["mimeType"]),
            (&json!(format!("job://{id}")), &json!("application/json"))
        );
        let view: Value = serde_json::from_str(contents["text"].as_str().expect("a text")).expect("JSON");
        assert_eq!(view, rig.result("get_job", json!({"jobId": id})).await["structuredContent"]);
        assert!(!job.to_string().contains("s3cret"));
        assert_eq!(job.get("ttlMs").is_some(), revision == "2026-07-28");
        let result = read(&rig, revision, &format!("job://{id}/result")).await["result"].take();
        assert_eq!(result["contents"][0]["text"], r#"{"a":1}"#);
    }
    let text = rig.start(json!({"result": "plain\n\"text\""})).await;
    rig.ended(&text).await;
    let result = read(&rig, "2025-11-25", &format!("job://{text}/result")).await["result"].take();
    let contents = &result["contents"][0];
    assert_eq!((&contents["text"], &contents["mimeType"]), (&json!("plain\n\"text\""), &json!("text/plain")));
}

#[tokio::test]
async fn a_long_result_is_cut_and_says_how_to_read_on() {
    let rig = rig(0).await;
    let long = "語x".repeat(50_000);
    let id = rig.start(json!({"result": long})).await;
    rig.ended(&id).await;
    let result = read(&rig, "2026-07-28", &format!("job://{id}/result")).await["result"].take();
    let contents = &result["contents"][0];
    let (text, cut) = (contents["text"].as_str().expect("a text"), &contents["_meta"]["longhaul/cut"]);
    assert!(text.len() < 66_000 && text.contains("call get_job with jobId"), "{}", text.len());
    let next = cut["nextOffset"].as_u64().expect("an offset");
    assert_eq!(cut["total"], 200_002);
    let rest = rig.result("get_job", json!({"jobId": id, "part": "result", "offset": next, "limit": 16})).await;
    let rest = rest["structuredContent"]["text"].as_str().expect("a text").to_owned();
    let head = text.split("\n[cut").next().expect("the head");
    assert!(long.starts_with(&format!("{head}{rest}")));
}

#[tokio::test]
async fn what_is_not_there_is_not_found_in_the_words_of_each_revision() {
    let rig = rig(0).await;
    let running = rig.start(json!({"hold": true})).await;
    let failed = rig.start(json!({"fail": "no luck"})).await;
    rig.ended(&failed).await;
    let unknown = "job://0190b5a0-0000-7000-8000-000000000000".to_owned();
    for revision in REVISIONS {
        for (uri, word) in [
            ("test://nothing".to_owned(), "no resource"),
            (unknown.clone(), "no resource"),
            (format!("{unknown}/result"), "no resource"),
            (format!("job://{running}/result"), "no result yet"),
            (format!("job://{failed}/result"), "no luck"),
            ("test://item//data".into(), "no resource"),
            (format!("test://item/{}/data", "x".repeat(3_000)), "no resource"),
        ] {
            let error = read(&rig, revision, &uri).await["error"].take();
            let code = if revision == "2026-07-28" { -32602 } else { -32002 };
            assert_eq!(error["code"], code, "{uri} {error}");
            assert!(uri.starts_with(error["data"]["uri"].as_str().expect("a URI")), "{error}");
            assert!(error["message"].as_str().expect("a text").contains(word), "{error}");
        }
        let error = send(&rig, revision, "resources/read", json!({"uri": 7})).await["error"].take();
        assert_eq!(error["code"], -32602);
    }
}

#[tokio::test]
async fn another_principal_s_job_looks_like_one_that_never_was() {
    let rig = rig(0).await;
    let id = rig.start(json!({"result": 1})).await;
    rig.ended(&id).await;
    let ann = || Viewer { principal: "ann".into(), sees_all: false };
    let send = async |method: &str, params: Value| {
        let name = params["uri"].as_str().map(str::to_owned);
        let mut headers: Vec<(&str, &[u8])> = vec![("content-type", b"application/json")];
        let listed = modern_headers(method, name.as_deref());
        headers.extend(listed.iter().map(|(name, value)| (*name, value.as_bytes())));
        let body = modern(method, params, json!({})).to_string();
        message(&rig.request_as(ann(), "POST", &headers, body.as_bytes()).await)
    };
    let never = "0190b5a0-0000-7000-8000-000000000000";
    for suffix in ["", "/result"] {
        let hers = send("resources/read", json!({"uri": format!("job://{id}{suffix}")})).await;
        let none = send("resources/read", json!({"uri": format!("job://{never}{suffix}")})).await;
        assert_eq!(hers.to_string().replace(&id, never), none.to_string());
    }
    let listed = send("resources/list", json!({})).await.to_string();
    assert!(!listed.contains(&id) && listed.contains("test://blob"), "{listed}");
    let complete =
        json!({"ref": {"type": "ref/resource", "uri": "job://{id}"}, "argument": {"name": "id", "value": &id[..8]}});
    assert_eq!(send("completion/complete", complete).await["result"]["completion"]["values"], json!([]));
}

#[tokio::test]
async fn resources_are_listed_in_pages_and_the_newest_jobs_behind_them() {
    let rig = rig(2 * PAGE_MAX).await;
    for _ in 0..=JOBS_LISTED_MAX {
        rig.start(json!({})).await;
    }
    for revision in REVISIONS {
        let (mut uris, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
        loop {
            let page = send(&rig, revision, "resources/list", json!({"cursor": cursor})).await["result"].take();
            let of = |entry: &Value| entry["uri"].as_str().expect("a URI").to_owned();
            uris.extend(page["resources"].as_array().expect("a list").iter().map(of));
            assert_eq!(page.get("cacheScope").is_some(), revision == "2026-07-28");
            pages += 1;
            match page.get("nextCursor") {
                Some(next) => cursor = next.clone(),
                None => break,
            }
        }
        assert_eq!((pages, uris.len()), (3, 2 * PAGE_MAX + 1 + JOBS_LISTED_MAX));
        assert!(uris[2 * PAGE_MAX + 1..].iter().all(|uri| uri.starts_with("job://")));
        for cursor in [json!("7"), json!("0"), json!("0100"), json!("300"), json!(100), json!("-100")] {
            let error = send(&rig, revision, "resources/list", json!({"cursor": cursor})).await["error"].take();
            assert_eq!(error["code"], -32602, "{cursor}");
        }
    }
}

#[tokio::test]
async fn configured_resources_and_templates_are_read_as_they_are_listed() {
    let rig = rig(1).await;
    for revision in REVISIONS {
        let read = async |uri: &str| read(&rig, revision, uri).await["result"]["contents"][0].take();
        assert_eq!(read("test://0").await, json!({"uri": "test://0", "mimeType": "text/plain", "text": "text 0"}));
        let blob = read("test://blob").await;
        assert_eq!(blob, json!({"uri": "test://blob", "mimeType": "image/png", "blob": "AAAA"}));
        let filled = read("test://item/a%22b/data").await;
        assert_eq!((&filled["text"], &filled["uri"]), (&json!(r#"{"id":"a\"b"}"#), &json!("test://item/a%22b/data")));
        let templates = send(&rig, revision, "resources/templates/list", json!({})).await["result"].take();
        let of = |entry: &Value| entry["uriTemplate"].as_str().expect("a template").to_owned();
        let templates: Vec<_> = templates["resourceTemplates"].as_array().expect("a list").iter().map(of).collect();
        assert_eq!(templates, ["job://{id}", "job://{id}/result", "test://item/{id}/data"]);
    }
}

#[tokio::test]
async fn a_prompt_is_filled_in_and_bad_arguments_are_named() {
    let rig = rig(0).await;
    for revision in REVISIONS {
        let list = send(&rig, revision, "prompts/list", json!({})).await["result"].take();
        assert_eq!(list["prompts"][0]["arguments"][0], json!({"name": "topic", "required": true}));
        let get = async |arguments: Value| {
            send(&rig, revision, "prompts/get", json!({"name": "write", "arguments": arguments})).await
        };
        let result = get(json!({"topic": "a \"b\" {tone}", "tone": "\"dry\""})).await["result"].take();
        let messages = &result["messages"];
        assert_eq!(
            messages[0],
            json!({"role": "user", "content": {"type": "text", "text": "About a \"b\" {tone}, \"dry\"."}})
        );
        assert_eq!(messages[1]["content"]["resource"]["text"], r#"{"tone":"\"dry\""}"#);
        assert_eq!(messages[2]["content"], json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}));
        for (arguments, word) in [
            (json!({}), "missing, and there is no prompt without: topic"),
            (json!({"topik": "x"}), "did you mean topic?"),
            (json!({"topic": 7}), "must be a string"),
            (json!({"topic": "x".repeat(70_000)}), "longer than"),
            (json!({"topic": "x", "place": "a b"}), "makes a URI of them, and app:a b is none"),
            (json!({"topic": "x", "place": "a%2"}), "and app:a%2 is none"),
            (json!([]), "must be an object"),
        ] {
            let error = get(arguments).await["error"].take();
            assert!(error["code"] == -32602 && error["message"].to_string().contains(word), "{error}");
        }
        let error = send(&rig, revision, "prompts/get", json!({"name": "wryte"})).await["error"].take();
        assert!(error["code"] == -32602 && error["message"].to_string().contains("did you mean write?"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_argument_is_asked_for_until_the_answer_fits() {
    let rig = rig(0).await;
    let get = async |extra: Value, capabilities: Value| {
        let mut params = json!({"name": "ask"});
        params.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        send_modern(&rig, "prompts/get", params, capabilities).await
    };
    let forms = json!({"elicitation": {}});
    for responses in [
        json!({}),
        json!({"inputResponses": null}),
        json!({"inputResponses": {"other": {"action": "accept", "content": {"topic": "x"}}}}),
        json!({"inputResponses": {"topic": {"action": "accept", "content": {"topic": 7}}}}),
    ] {
        let result = get(responses, forms.clone()).await["result"].take();
        assert_eq!((&result["resultType"], result.get("ttlMs")), (&json!("input_required"), None));
        let request = &result["inputRequests"]["topic"];
        assert_eq!(
            (&request["method"], &request["params"]["message"]),
            (&json!("elicitation/create"), &json!("Which topic?"))
        );
        assert_eq!(request["params"]["requestedSchema"]["required"], json!(["topic"]));
    }
    let answer = json!({"inputResponses": {"topic": {"action": "accept", "content": {"topic": "tea"}}}});
    let result = get(answer.clone(), forms.clone()).await["result"].take();
    assert_eq!(
        (&result["resultType"], &result["messages"][0]["content"]["text"]),
        (&json!("complete"), &json!("About tea."))
    );
    let declined = get(json!({"inputResponses": {"topic": {"action": "decline"}}}), forms).await;
    assert_eq!(declined["error"]["code"], -32602);
    assert_eq!(
        get(answer.clone(), json!({})).await["error"]["code"],
        -32602,
        "who cannot be asked has answered nothing"
    );
    let old =
        send(&rig, "2025-11-25", "prompts/get", json!({"name": "ask", "inputResponses": answer["inputResponses"]}))
            .await;
    assert_eq!(old["error"]["code"], -32602);
}

#[tokio::test]
async fn what_is_typed_is_completed() {
    let rig = rig(0).await;
    let id = rig.start(json!({"hold": true})).await;
    for revision in REVISIONS {
        let complete = async |reference: Value, name: &str, value: &str| {
            let params = json!({"ref": reference, "argument": {"name": name, "value": value}});
            send(&rig, revision, "completion/complete", params).await
        };
        let values = |answer: Value| answer["result"]["completion"]["values"].clone();
        let prompt = || json!({"type": "ref/prompt", "name": "write"});
        let resource = |uri: &str| json!({"type": "ref/resource", "uri": uri});
        assert_eq!(values(complete(prompt(), "tone", "d").await), json!(["Dry"]));
        assert_eq!(values(complete(prompt(), "topic", "d").await), json!([]));
        assert_eq!(values(complete(resource("test://item/{id}/data"), "id", "").await), json!(["alpha", "beta"]));
        for uri in ["job://{id}", "job://{id}/result"] {
            assert_eq!(values(complete(resource(uri), "id", &id[..20]).await), json!([id]));
            assert_eq!(values(complete(resource(uri), "id", "ffff").await), json!([]));
        }
        for (reference, name) in [
            (prompt(), "nothing"),
            (json!({"type": "ref/prompt", "name": "nothing"}), "tone"),
            (resource("job://{id}"), "jobId"),
            (resource("test://other/{id}"), "id"),
            (json!({"type": "ref/other"}), "id"),
            (json!(null), "id"),
        ] {
            assert_eq!(complete(reference.clone(), name, "").await["error"]["code"], -32602, "{reference} {name}");
        }
    }
}

#[tokio::test]
async fn the_library_is_declared_and_answered_even_where_it_is_empty() {
    let bare = Rig::new().await;
    let discovered = send_modern(&bare, "server/discover", json!({}), json!({})).await["result"].take();
    let asked = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    let opened = message(&bare.post(&[], &request(0, "initialize", asked)).await)["result"].take();
    for capabilities in [&discovered["capabilities"], &opened["capabilities"]] {
        // It may be filled without a restart.
        assert!(["prompts", "resources", "completions"].iter().all(|name| capabilities.get(name).is_some()));
    }
    assert_eq!(send(&bare, "2025-11-25", "prompts/list", json!({})).await["result"]["prompts"], json!([]));
    let answer = send(&bare, "2025-11-25", "prompts/get", json!({"name": "ask"})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn a_configured_resource_can_be_subscribed_to_and_one_that_is_not_there_cannot() {
    let rig = rig(0).await;
    let session = rig.open("2025-11-25").await;
    for (uri, code) in [("test://blob", None), ("test://item/7/data", None), ("test://nothing", Some(-32002))] {
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let answer = rig.post(&[("mcp-session-id", &session)], &request(1, method, json!({"uri": uri}))).await;
            let expected = code.filter(|_| method == "resources/subscribe");
            assert_eq!(message(&answer)["error"]["code"].as_i64(), expected, "{method} {uri}");
        }
    }
}
