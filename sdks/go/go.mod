module ringtrue.example/ringtrue

go 1.19
