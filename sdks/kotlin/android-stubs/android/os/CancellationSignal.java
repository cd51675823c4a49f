package android.os;

public final class CancellationSignal {
    public CancellationSignal() {
        throw new RuntimeException("stub");
    }

    public void cancel() {
        throw new RuntimeException("stub");
    }
}
