module ws-bench/peers/go

go 1.22
