package android.content.pm;

/** Fake: has the features that a test adds. */
public class PackageManager {
    public final java.util.Set<String> features = new java.util.HashSet<>();

    public boolean hasSystemFeature(String featureName) {
        return features.contains(featureName);
    }
}
