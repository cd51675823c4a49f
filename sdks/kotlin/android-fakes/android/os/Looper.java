package android.os;

/** Fake: a test chooses the current thread's looper. */
public final class Looper {
    private static final Looper MAIN = new Looper();
    public static final ThreadLocal<Looper> CURRENT = new ThreadLocal<>();

    public static Looper getMainLooper() {
        return MAIN;
    }

    public static Looper myLooper() {
        return CURRENT.get();
    }
}
