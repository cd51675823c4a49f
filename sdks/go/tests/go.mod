module ringtrue.example/ringtrue/tests

go 1.19

require ringtrue.example/ringtrue v1.0.0

replace ringtrue.example/ringtrue => ../
