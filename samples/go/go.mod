module ringtrue.example/sample

go 1.19
