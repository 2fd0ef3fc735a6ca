module ws-recorder-cost

go 1.22
