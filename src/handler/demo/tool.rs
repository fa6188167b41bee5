//! How the demo's tool is offered: its name, its words for people and models, its schemas.
//!
//! In: nothing. Out: what a configuration file would say. The schemas say no more than the handler keeps.

use serde_json::{Value, json};

/// The tool's name.
pub const NAME: &str = "start_deep_analysis";

/// The type of its jobs.
pub const JOB_TYPE: &str = "deep_gift_analysis";

/// For people.
pub const TITLE: &str = "Deep gift analysis";

/// For the model.
pub const DESCRIPTION: &str = "Finds gifts for a person: analyses a purchase history in four stages and ranks what fits the \
     person and the budget. Takes a few seconds and runs in the background.";

/// JSON Schema of the arguments.
pub fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "recipientProfile": {
                "type": "string",
                "minLength": 1,
                "maxLength": 10_000,
                "description": "Whom the gift is for: age, interests, habits, in a few sentences."
            },
            "budget": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": super::BUDGET_MAX,
                "description": "The most that the gift may cost, in the currency of the catalogue (EUR)."
            },
            "purchaseHistory": {
                "type": "string",
                "description": "Earlier purchases as CSV text with a header line: date, item, price, and if known category, \
                    quantity, order id. Without it, a sample history is analysed."
            }
        },
        "required": ["recipientProfile", "budget"],
        "additionalProperties": false
    })
}

/// JSON Schema of the result.
pub fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "gifts": {
                "type": "array",
                "maxItems": super::GIFTS_MAX,
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "category": {"type": "string"},
                        "price": {"type": "number"},
                        "points": {"type": "integer"},
                        "reasons": {"type": "array", "items": {"type": "string"}}
                    },
                    "required": ["name", "category", "price", "points", "reasons"]
                }
            },
            "segments": {"type": "array", "maxItems": super::SEGMENTS_MAX, "items": {"type": "object"}},
            "history": {
                "type": "object",
                "properties": {
                    "lines": {"type": "integer"},
                    "purchases": {"type": "integer"},
                    "duplicates": {"type": "integer"},
                    "broken": {"type": "integer"},
                    "brokenBy": {"type": "object", "additionalProperties": {"type": "integer"}}
                },
                "required": ["lines", "purchases", "duplicates", "broken", "brokenBy"]
            }
        },
        "required": ["gifts", "segments", "history"]
    })
}
