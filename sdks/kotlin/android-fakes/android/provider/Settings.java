package android.provider;

public final class Settings {
    /** Fake: reads from the resolver. */
    public static final class Global {
        public static int getInt(android.content.ContentResolver cr, String name, int def) {
            return cr.settings.getOrDefault(name, def);
        }
    }
}
