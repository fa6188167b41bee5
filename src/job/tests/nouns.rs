//! Names and times have one way to be written, and read back only that.

use super::*;
use crate::job::{Epoch, EventId, Position, TRAIL_RECENT_MAX, Trail, cut};

#[test]
fn an_event_id_is_read_back_only_as_it_is_written() {
    let id = EventId { epoch: Epoch(0xab), position: Position(70) };
    assert_eq!((id.to_string().as_str(), "000000ab-70".parse()), ("000000ab-70", Ok(id)));
    assert!("00000000-0".parse::<EventId>().is_ok_and(|id| id.position == Position::ZERO));
    assert!("ffffffff-18446744073709551615".parse::<EventId>().is_ok());
    for malformed in [
        "",
        "-",
        "70",
        "000000ab",
        "000000ab-",
        "000000AB-70",
        "00000ab-70",
        "0000000ab-70",
        "000000ab-070",
        "000000ab-+7",
        "000000ab--7",
        "000000ab-7 ",
        "000000ab-7-7",
        "000000ag-7",
        "000000ab-18446744073709551616",
        "000000ab-٣",
        "+00000ab-7",
        "000000ab-99999999999999999999",
    ] {
        assert!(malformed.parse::<EventId>().is_err(), "{malformed:?}");
    }
}

#[test]
fn a_job_id_is_read_back_only_as_it_is_written() {
    let text = "018f2a3c-7b1d-7000-8000-0123456789ab";
    assert_eq!(text.parse::<JobId>().map(|id| id.to_string()).as_deref(), Ok(text));
    for malformed in [
        "",
        "018F2A3C-7B1D-7000-8000-0123456789AB",
        "018f2a3c7b1d700080000123456789ab",
        "{018f2a3c-7b1d-7000-8000-0123456789ab}",
        "urn:uuid:018f2a3c-7b1d-7000-8000-0123456789ab",
        "018f2a3c-7b1d-7000-8000-0123456789a",
    ] {
        assert!(malformed.parse::<JobId>().is_err(), "{malformed:?}");
    }
}

#[test]
fn a_time_is_written_in_utc_with_milliseconds() {
    assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
    assert_eq!(Timestamp(1_796_059_921_009).to_string(), "2026-11-30T17:32:01.009Z");
    assert_eq!(Timestamp::parse("2026-11-30T18:32:01.0099+01:00"), Some(Timestamp(1_796_059_921_009)));
    assert_eq!(Timestamp::parse("yesterday"), None);
    for extreme in [Timestamp(i64::MIN), Timestamp(i64::MAX)] {
        assert!(extreme.to_string().ends_with('Z'), "what cannot be said is still written");
    }
}

#[test]
fn lengths_and_instants_saturate() {
    assert_eq!(Timestamp(i64::MAX).plus(Millis(u64::MAX)), Timestamp(i64::MAX));
    assert_eq!(Timestamp(0).plus(Millis(u64::MAX)), Timestamp(i64::MAX));
    assert_eq!(Timestamp(5).since(Timestamp(9)), Millis(0));
    assert_eq!(Timestamp(i64::MAX).since(Timestamp(i64::MIN)), Millis(i64::MAX as u64));
    assert_eq!(Millis::seconds(u64::MAX), Millis(u64::MAX));
}

#[test]
fn a_text_is_cut_at_a_character() {
    assert_eq!(["", "a", "aä"].map(|text| cut(text, 2)), ["", "a", "a"]);
    assert_eq!((cut("€", 2), cut("€", 3)), ("", "€"));
}

#[test]
fn a_trail_gives_up_its_positions_in_full_blocks_and_in_order() {
    let mut trail = Trail::default();
    assert_eq!(trail.last(), Position::ZERO);
    let mut kept = Vec::new();
    for n in 1..=200 {
        let full = trail.push(Position(n));
        assert!(full.as_ref().is_none_or(|block| block.len() == TRAIL_RECENT_MAX));
        kept.extend(full.into_iter().flatten());
        assert_eq!((trail.last(), kept.len()), (Position(n), trail.blocks as usize * TRAIL_RECENT_MAX));
    }
    kept.extend(trail.recent);
    assert_eq!(kept, (1..=200).map(Position).collect::<Vec<_>>());
}

/// A million pending jobs are kept in memory (design 4): about 300 bytes for a head, some 100 for its place in the queue.
#[test]
fn a_waiting_job_costs_little_memory() {
    assert!(size_of::<Job>() <= 320, "{}", size_of::<Job>());
}
