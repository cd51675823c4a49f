package android.os;

/** Fake: a test chooses the version. */
public class Build {
    public static class VERSION {
        public static int SDK_INT = 34;
    }
}
