package android.content;

/** Fake: holds the settings themselves. */
public class ContentResolver {
    public final java.util.Map<String, Integer> settings = new java.util.HashMap<>();
}
