package android.provider;

public final class Settings {
    public static final class Global {
        public static final String AIRPLANE_MODE_ON = "airplane_mode_on";

        public static int getInt(android.content.ContentResolver cr, String name, int def) {
            throw new RuntimeException("stub");
        }
    }
}
