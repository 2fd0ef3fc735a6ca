//! When connections send again, wait, and are given up.

use ws_sim::network::{KeepAlive, Link, Ready};

use super::{MILLISECOND, SECOND, at, connection, listen, number, run, two_hosts, wait};

#[test]
fn a_retransmission_is_never_later_than_two_minutes() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    net.partition_one_way(&[a], &[b]);
    net.write(client, b"late").unwrap();
    run(&mut net, 450 * SECOND);
    net.heal();
    let healed = net.now();
    let waited = wait(&mut net, server, Ready::READABLE) - healed;
    assert!(waited <= 120 * SECOND, "{waited}");
}

#[test]
fn keepalive_sends_as_many_probes_as_it_is_told() {
    let (mut net, a, b) = two_hosts();
    let (client, _server) = connection(&mut net, a, b);
    let times = KeepAlive {
        idle: 10 * SECOND,
        interval: 2 * SECOND,
        retries: 3,
    };
    net.set_keepalive(client, Some(times)).unwrap();
    net.crash(b);
    let gone = wait(&mut net, client, Ready::ERROR) / SECOND;
    assert_eq!(
        gone, 16,
        "three probes, and no answer to the last for two seconds"
    );
}

#[test]
fn eight_packets_with_wrong_bits_end_a_connection() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    let link = Link {
        corrupt_ppm: 1_000_000,
        ..Link::default()
    };
    net.set_link(a, b, link);
    net.write(client, b"x").unwrap();
    // The seventh retransmission is the eighth packet.
    run(&mut net, 13 * SECOND);
    assert_eq!(net.readiness(server), Ready::WRITABLE);
    run(&mut net, 13 * SECOND);
    assert_eq!(number(net.read(server, &mut [0])), libc::ECONNRESET);
}

#[test]
fn a_reset_with_another_number_than_the_next_is_asked_about() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    run(&mut net, SECOND);
    net.partition_one_way(&[b], &[a]);
    net.write(server, b"lost").unwrap();
    run(&mut net, MILLISECOND);
    net.heal();
    net.set_linger(server, Some(0)).unwrap();
    let begin = net.now();
    net.close(server).unwrap();
    // The reset, the question, and the reset that has the number.
    let took = wait(&mut net, client, Ready::ERROR) - begin;
    assert_eq!(took, 300_000);
}

#[test]
fn requests_that_nobody_confirms_fill_a_backlog() {
    let (mut net, a, b) = two_hosts();
    let c = net.add_host("c", &["10.0.0.3".parse().unwrap()]).unwrap();
    let listener = net.tcp_socket(b, false);
    net.bind(listener, at("10.0.0.2:80")).unwrap();
    net.listen(listener, 0).unwrap();
    let asks = net.tcp_socket(c, false);
    net.connect(asks, at("10.0.0.2:80")).unwrap_err();
    run(&mut net, 150_000);
    net.crash(c);
    let client = net.tcp_socket(a, false);
    let begin = net.now();
    net.connect(client, at("10.0.0.2:80")).unwrap_err();
    let took = wait(&mut net, client, Ready::WRITABLE) - begin;
    assert!(
        took > 60 * SECOND,
        "the request is given up after 63 s: {took}"
    );
}

#[test]
fn a_small_segment_waits_for_nobody_if_the_socket_says_so() {
    for (nodelay, round_trips) in [(false, 2), (true, 0)] {
        let (mut net, a, b) = two_hosts();
        let (client, server) = connection(&mut net, a, b);
        net.set_nodelay(client, nodelay).unwrap();
        let half = 100_000;
        let begin = net.now();
        net.write(client, b"a").unwrap();
        net.write(client, b"b").unwrap();
        let mut bytes = [0; 2];
        let mut got = 0;
        while got < 2 {
            wait(&mut net, server, Ready::READABLE);
            got += net.read(server, &mut bytes).unwrap();
        }
        assert_eq!(net.now() - begin, half * (1 + round_trips), "{nodelay}");
    }
}

#[test]
fn a_closed_socket_waits_for_the_end_of_its_peer_for_a_minute() {
    let (mut net, a, b) = two_hosts();
    let (client, _server) = connection(&mut net, a, b);
    net.close(client).unwrap();
    let begin = net.now();
    run(&mut net, SECOND);
    let end = net.next_event().unwrap() - begin;
    // It begins with the acknowledgement of its own end.
    assert_eq!(end, 60 * SECOND + 200_000);
    run(&mut net, 60 * SECOND);
    assert_eq!(net.next_event(), None);
}

#[test]
fn a_send_buffer_that_grows_is_news() {
    let (mut net, a, b) = two_hosts();
    let (client, _server) = connection(&mut net, a, b);
    net.partition(&[a], &[b]);
    while net.write(client, &[0; 10_000]).is_ok() {}
    net.take_news();
    assert!(!net.readiness(client).contains(Ready::WRITABLE));
    net.set_send_buffer_size(client, 10_000_000).unwrap();
    assert_eq!(net.take_news(), [(client, Ready::WRITABLE)]);
}

#[test]
fn a_connection_has_the_times_of_its_listener() {
    let (mut net, a, b) = two_hosts();
    let times = KeepAlive {
        idle: 10 * SECOND,
        interval: 2 * SECOND,
        retries: 3,
    };
    let listener = listen(&mut net, b, "10.0.0.2:80");
    net.set_keepalive(listener, Some(times)).unwrap();
    net.set_user_timeout(listener, 7 * SECOND).unwrap();
    let client = net.tcp_socket(a, false);
    net.connect(client, at("10.0.0.2:80")).unwrap_err();
    wait(&mut net, listener, Ready::READABLE);
    let (server, _) = net.accept(listener).unwrap();
    assert_eq!(net.keepalive(server).unwrap(), Some(times));
    assert_eq!(net.user_timeout(server).unwrap(), 7 * SECOND);
    // It is on, and not only told.
    net.crash(a);
    let gone = wait(&mut net, server, Ready::ERROR) / SECOND;
    assert!((10..17).contains(&gone), "{gone}");
}
