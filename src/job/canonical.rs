//! When two payloads are the same: equal JSON values, however spelled (contract 5, idempotency).

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of the value's canonical text: object members sorted by name, numbers by value, no white space.
pub fn digest(value: &Value) -> [u8; 32] {
    let mut text = String::new();
    write(value, &mut text);
    Sha256::digest(text.as_bytes()).into()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
        Value::Number(number) => out.push_str(&spell(number)),
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (name, item) in sorted {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write(item, out);
                out.push(',');
            }
            out.push('}');
        }
    }
}

/// `1`, `1.0` and `1e0` are one number; integers beyond 2^53 stay exact. Above 2^64 there are only floats.
fn spell(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < u64::MAX as f64 => {
            (float as i128).to_string()
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::digest;

    fn same(a: &str, b: &str) -> bool {
        let parse = |text| serde_json::from_str(text).expect("test JSON");
        digest(&parse(a)) == digest(&parse(b))
    }

    #[test]
    fn spelling_and_order_do_not_make_another_payload() {
        assert!(same(r#"{"a":1,"b":[2.0,-0.0]}"#, r#"{ "b":[2,0], "a":1e0 }"#));
        assert!(!same(r#"{"a":1}"#, r#"{"a":"1"}"#));
        assert!(!same(r#"[12,3]"#, r#"[1,23]"#));
        assert!(!same("9007199254740993", "9007199254740992"));
        assert!(same("1e16", "10000000000000000"));
        assert!(same("1e19", "10000000000000000000"));
        assert!(same("1e20", "100000000000000000000"));
        assert!(!same("-10", "10"));
    }
}
