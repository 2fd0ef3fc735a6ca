#!/usr/bin/env bash
# Drives the example `serve` with curl: a client that nobody here wrote.
#
#   .ci/serve-curl.sh PROGRAM      e.g. target/release/examples/serve
#
# It listens on a free port of this machine, serves files of a temporary folder, and is stopped by its
# own process id, also if a check fails. All of it runs with 1 worker, with 2 and with 8.
set -euo pipefail

serve=$1
tmp=$(mktemp -d)
pid=
checks=0

clean_up() {
    if [[ -n $pid ]]; then
        kill -KILL "$pid" 2>/dev/null || true # it may have ended
    fi
    rm -rf "$tmp"
}
trap clean_up EXIT

# check WHAT GOT EXPECTED
check() {
    if [[ $2 != "$3" ]]; then
        printf 'serve-curl: %s, %s workers: got %q, expected %q\n' "$1" "$workers" "$2" "$3" >&2
        exit 1
    fi
    checks=$((checks + 1))
}

# get CURL-ARGUMENTS...: the body, and nothing else
get() {
    curl --silent --show-error --max-time 60 "$@"
}

# status CURL-ARGUMENTS...: the status code, and nothing else
status() {
    get --output /dev/null --write-out '%{http_code}' "$@"
}

metric() {
    get "$url/metrics" | sed -n "s/^$1 //p"
}

# wait_for METRIC VALUE: asks until it is so; 600 times at most, with a pause that grows to 100 ms
wait_for() {
    local value=
    for try in {1..600}; do
        value=$(metric "$1")
        [[ $value == "$2" ]] && break
        sleep "0.0$((try < 9 ? try : 9))"
    done
    check "$1" "$value" "$2"
}

mkdir "$tmp/files"
head -c 10485760 /dev/urandom >"$tmp/files/big"
printf 'secret' >"$tmp/secret"
ln -s ../secret "$tmp/files/link"

for workers in 1 2 8; do
    exec {out}< <(exec "$serve" --listen 127.0.0.1:0 --workers "$workers" --dir "$tmp/files")
    pid=$!
    IFS= read -r line <&"$out"
    [[ $line =~ (http://[0-9.:]+), ]] || { echo "serve-curl: no address in: $line" >&2; exit 1; }
    url=${BASH_REMATCH[1]}

    # Plain answers, and two of them on one connection.
    check hello "$(get "$url/hello")" hello
    check fib "$(get "$url/fib/27")" 196418
    check sleep "$(get "$url/sleep/5")" 'slept 5 ms'
    check keep-alive "$(get -o /dev/null -o /dev/null -w '%{num_connects} ' "$url/hello" "$url/fib/9")" '1 0 '

    # A file of 10 MB, byte by byte.
    get --output "$tmp/copy" "$url/files/big"
    cmp "$tmp/copy" "$tmp/files/big"
    check length "$(get --head "$url/files/big" | tr -d '\r' | sed -n 's/^content-length: //p')" 10485760

    # 200 at once.
    for _ in {1..200}; do
        printf 'url = "%s/sleep/300"\noutput = "/dev/null"\n' "$url"
    done >"$tmp/config"
    codes=$(get --parallel --parallel-immediate --parallel-max 200 --config "$tmp/config" \
        --write-out '%{http_code}\n' 2>"$tmp/meter" | sort | uniq -c | tr -s ' ')
    check '200 at once' "$codes" ' 200 200'

    # Clients that go away in the middle: of a download, and of a wait.
    gone=0
    get --max-time 0.3 --limit-rate 100k --output /dev/null "$url/files/big" 2>/dev/null || gone=$?
    check 'curl gave up the download' "$gone" 28
    gone=0
    get --max-time 0.3 --output /dev/null "$url/sleep/60000" 2>/dev/null || gone=$?
    check 'curl gave up the wait' "$gone" 28
    wait_for serve_requests_in_flight 1

    # Bad requests.
    exec {socket}<>"/dev/tcp/127.0.0.1/${url##*:}"
    printf 'no HTTP at all\r\n\r\n' >&"$socket"
    IFS= read -r line <&"$socket"
    exec {socket}>&-
    check 'no HTTP' "${line%$'\r'}" 'HTTP/1.1 400 Bad Request'
    check 'a number too big' "$(status "$url/fib/43")" 400
    check 'not a number' "$(status "$url/sleep/long")" 400
    check 'a bad escape' "$(status "$url/files/%zz")" 400
    check 'out of the folder' "$(status --path-as-is "$url/files/../secret")" 404
    check 'out of the folder, encoded' "$(status --path-as-is "$url/files/%2e%2e%2fsecret")" 404
    check 'out of the folder, by a link' "$(status "$url/files/link")" 404
    check 'no such page' "$(status "$url/nothing")" 404
    check 'no such method' "$(status --request DELETE "$url/hello")" 405
    check 'and it goes on' "$(get "$url/hello")" hello

    # The scheduler's counters.
    check workers "$(metric ws_workers)" "$workers"
    metrics=$(get "$url/metrics")
    for name in ws_polls_total ws_steals_total ws_parks_total ws_wakeups_total ws_local_queue; do
        [[ $metrics == *"$name{p=\"0\"} "* ]] || { echo "serve-curl: no $name" >&2; exit 1; }
    done

    # The end, with a request in flight: for so long that a look at the counters falls into it on any machine.
    get --output "$tmp/late" "$url/sleep/6000" &
    late=$!
    wait_for serve_requests_in_flight 2
    kill -TERM "$pid"
    wait "$late"
    check 'the request in flight' "$(<"$tmp/late")" 'slept 6000 ms'
    code=0
    wait "$pid" || code=$?
    pid=
    check 'exit code' "$code" 0
    check 'last words' "$(tail -n 1 <&"$out")" 'every request was answered'
    exec {out}<&-
done
echo "serve-curl: $checks checks"
