package android.os;

public final class Looper {
    Looper() {
        throw new RuntimeException("stub");
    }

    public static Looper getMainLooper() {
        throw new RuntimeException("stub");
    }

    public static Looper myLooper() {
        throw new RuntimeException("stub");
    }
}
