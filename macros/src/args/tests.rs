//! Which arguments are accepted, and what the errors point at.

use super::*;
use quote::ToTokens;

fn parse(source: &str) -> (Args, Option<syn::Error>) {
    Args::parse(Entry::Main, source.parse().unwrap())
}

fn parse_test(source: &str) -> (Args, Option<syn::Error>) {
    Args::parse(Entry::Test, source.parse().unwrap())
}

/// The arguments, which have to be without a fault.
fn good(source: &str) -> (Option<String>, Option<String>) {
    let (args, fault) = parse(source);
    if let Some(fault) = fault {
        panic!("`{source}` is refused: {fault}");
    }
    let text = |tokens: &dyn ToTokens| tokens.to_token_stream().to_string().replace(' ', "");
    (
        args.workers.map(|n| text(&n)),
        args.krate.map(|path| text(&path)),
    )
}

/// Each fault as the text that it points at and its message.
fn faults(source: &str) -> Vec<(String, String)> {
    listed(source, parse(source).1)
}

/// The same, of a test.
fn test_faults(source: &str) -> Vec<(String, String)> {
    listed(source, parse_test(source).1)
}

fn listed(source: &str, fault: Option<syn::Error>) -> Vec<(String, String)> {
    fault
        .unwrap_or_else(|| panic!("`{source}` is accepted"))
        .into_iter()
        .map(|error| {
            (
                error.span().source_text().unwrap_or_default(),
                error.to_string(),
            )
        })
        .collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn nothing_and_trailing_comma() {
    assert_eq!(good(""), (None, None));
    assert_eq!(good("workers = 4,"), (some("4usize"), None));
}

#[test]
fn workers_in_every_notation() {
    assert_eq!(good("workers = 1").0, some("1usize"));
    assert_eq!(good("workers = 16usize").0, some("16usize"));
    assert_eq!(good("workers = 0x1_0").0, some("16usize"));
}

#[test]
fn crate_as_path_and_as_string() {
    assert_eq!(good("crate = my::ws").1, some("my::ws"));
    assert_eq!(good("crate = ::ws").1, some("::ws"));
    assert_eq!(good("crate = crate").1, some("crate"));
    assert_eq!(good(r#"crate = "my::ws""#).1, some("my::ws"));
    assert_eq!(
        good(r#"crate = "crate::rt", workers = 2"#),
        (some("2usize"), some("crate::rt"))
    );
}

#[test]
fn zero_workers_points_at_the_literal() {
    let found = faults("workers = 0");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "0");
    assert!(found[0].1.contains("at least 1"), "{}", found[0].1);
}

#[test]
fn workers_takes_nothing_but_an_integer() {
    for value in ["\"4\"", "-1", "4.0", "4u8", "COUNT", "2 + 2", "true"] {
        let found = faults(&format!("workers = {value}"));
        assert_eq!(found, [(value.to_owned(), WORKERS_SHAPE.to_owned())]);
    }
    let huge = "99999999999999999999999999";
    assert_eq!(faults(&format!("workers = {huge}"))[0].0, huge);
}

#[test]
fn crate_takes_nothing_but_a_path() {
    for value in ["4", "\"not a path\"", "a.b", "Vec<u8>"] {
        let found = faults(&format!("crate = {value}"));
        assert_eq!(found, [(value.to_owned(), CRATE_SHAPE.to_owned())]);
    }
}

#[test]
fn missing_value_points_at_the_key() {
    for source in ["workers", "workers =", "workers, crate = ws"] {
        assert_eq!(
            faults(source),
            [("workers".to_owned(), WORKERS_SHAPE.to_owned())]
        );
    }
    assert_eq!(
        faults("crate ="),
        [("crate".to_owned(), CRATE_SHAPE.to_owned())]
    );
}

#[test]
fn unknown_key_lists_the_known_ones() {
    for key in ["worker_thread", "flavour", "name"] {
        let found = faults(&format!("{key} = 4"));
        assert_eq!(found[0].0, key);
        assert!(
            found[0].1.contains("`workers` and `crate`"),
            "{}",
            found[0].1
        );
        let found = test_faults(&format!("{key} = 4"));
        assert!(found[0].1.contains("`paused`, `seed`"), "{}", found[0].1);
    }
}

#[test]
fn virtual_time_is_for_tests() {
    for source in ["paused", "seed = 7"] {
        let found = faults(source);
        assert_eq!(found[0].0, source.split(' ').next().unwrap());
        assert!(found[0].1.contains("is for tests"), "{}", found[0].1);
    }
}

#[test]
fn a_paused_test_with_and_without_a_seed() {
    for (source, seed) in [
        ("paused", None),
        ("paused, workers = 1", None),
        ("paused, seed = 7", Some("7u64")),
        (
            "seed = 0xFFFF_FFFF_FFFF_FFFF, paused",
            Some("18446744073709551615u64"),
        ),
        ("workers = 1, paused, seed = 0u64,", Some("0u64")),
    ] {
        let (args, fault) = parse_test(source);
        assert!(fault.is_none(), "{source}");
        assert!(args.paused.is_some() && args.workers.is_none());
        let found = args.seed.map(|seed| seed.to_token_stream().to_string());
        assert_eq!(found.as_deref(), seed, "{source}");
    }
}

#[test]
fn paused_has_one_worker() {
    for source in ["paused, workers = 4", "workers = 4, paused"] {
        let found = test_faults(source);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "4");
        assert!(found[0].1.contains("one worker"), "{}", found[0].1);
    }
}

#[test]
fn a_seed_goes_with_paused() {
    let found = test_faults("workers = 2, seed = 7");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "seed");
    assert!(found[0].1.contains("goes with `paused`"), "{}", found[0].1);
}

#[test]
fn paused_and_seed_look_as_they_should() {
    for value in ["-1", "7u32", "\"7\"", "SEED", "18446744073709551616"] {
        let found = test_faults(&format!("paused, seed = {value}"));
        assert_eq!(found, [(value.to_owned(), SEED_SHAPE.to_owned())]);
    }
    assert_eq!(test_faults("paused, seed")[0].1, SEED_SHAPE);
    assert_eq!(test_faults("paused = true")[0].1, PAUSED_SHAPE);
    assert_eq!(
        test_faults("paused, paused")[0].1,
        "`paused` is given twice"
    );
}

#[test]
fn the_words_of_tokio_are_answered_with_ours() {
    let found = faults("worker_threads = 4, flavor = \"multi_thread\", start_paused = true");
    let keys: Vec<_> = found.iter().map(|(at, _)| at.as_str()).collect();
    assert_eq!(keys, ["worker_threads", "flavor", "start_paused"]);
    for ((_, message), ours) in found
        .iter()
        .zip(["`workers = 4`", "`workers = 1`", "`paused`"])
    {
        assert!(
            message.contains("tokio") && message.contains(ours),
            "{message}"
        );
    }
    assert_eq!(
        faults("worker_thread = 4")[0].1,
        "unknown argument `worker_thread`; known are `workers` and `crate`"
    );
}

#[test]
fn a_key_stands_once() {
    let found = faults("workers = 2, crate = ws, workers = 3, crate = other");
    let keys: Vec<_> = found.iter().map(|(at, _)| at.as_str()).collect();
    assert_eq!(keys, ["workers", "crate"]);
    assert_eq!(found[0].1, "`workers` is given twice");
}

#[test]
fn what_is_no_key_is_refused() {
    assert_eq!(faults("4")[0].0, "4");
    assert_eq!(faults(", workers = 4")[0].0, ",");
}

#[test]
fn all_faults_are_reported_and_the_rest_is_kept() {
    let (args, fault) = parse("threads, workers = 0, crate = my::ws, names = 7");
    let keys: Vec<_> = fault
        .expect("three faults")
        .into_iter()
        .map(|error| error.span().source_text().unwrap_or_default())
        .collect();
    assert_eq!(keys, ["threads", "0", "names"]);
    assert!(args.workers.is_none());
    assert!(args.krate.is_some());
}

#[test]
fn the_default_crate_is_absolute() {
    let path = default_crate()
        .to_token_stream()
        .to_string()
        .replace(' ', "");
    assert_eq!(path, "::ws");
}

/// The seeds and the seed of a simulation.
fn seeds(source: &str) -> (Option<String>, Option<String>) {
    let (args, fault) = Args::parse(Entry::Sim, source.parse().unwrap());
    assert!(fault.is_none(), "{source}");
    let text = |tokens: &dyn ToTokens| tokens.to_token_stream().to_string().replace(' ', "");
    (
        args.seeds.map(|seeds| text(&seeds)),
        args.seed.map(|seed| text(&seed)),
    )
}

/// The faults of the arguments of a simulation.
fn sim_faults(source: &str) -> Vec<(String, String)> {
    let fault = Args::parse(Entry::Sim, source.parse().unwrap()).1;
    listed(source, fault)
}

#[test]
fn seeds_are_a_number_or_a_range() {
    assert_eq!(seeds(""), (None, None));
    assert_eq!(seeds("seeds = 1_000").0, some("0u64..=999u64"));
    assert_eq!(seeds("seeds = 5..10u64").0, some("5u64..=9u64"));
    assert_eq!(seeds("seed = 7"), (None, some("7u64")));
    for value in [
        "\"7\"", "-1", "7u32", "..7", "1..=2", "1..2..3", "N", "1..-2",
    ] {
        let found = sim_faults(&format!("seeds = {value}"));
        assert_eq!(found, [(value.to_owned(), SEEDS_SHAPE.to_owned())]);
    }
    for value in ["0", "5..5", "9..5"] {
        let found = sim_faults(&format!("seeds = {value}"));
        assert!(found[0].1.starts_with("there is no seed here"), "{found:?}");
        assert_eq!(found[0].0, value);
    }
}

#[test]
fn a_simulation_has_one_seed_or_many() {
    for source in ["seed = 7, seeds = 10", "seeds = 10, seed = 7"] {
        let found = sim_faults(source);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "seed");
        assert!(found[0].1.contains("one of the two has to go"), "{found:?}");
    }
    assert_eq!(sim_faults("seeds")[0].1, SEEDS_SHAPE);
    assert_eq!(sim_faults("builder = 4 +")[0].1, BUILDER_SHAPE);
    assert!(
        sim_faults("paused")[0]
            .1
            .contains("`seeds`, `seed`, `workers`, `builder`")
    );
    assert!(
        sim_faults("start_paused = true")[0]
            .1
            .contains("time is virtual")
    );
}
