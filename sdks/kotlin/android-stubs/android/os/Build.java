package android.os;

public class Build {
    public static class VERSION {
        /** Not a constant: the compiler must not inline it. */
        public static final int SDK_INT = Integer.parseInt("0");
    }

    public static class VERSION_CODES {
        public static final int O = 26;
    }
}
