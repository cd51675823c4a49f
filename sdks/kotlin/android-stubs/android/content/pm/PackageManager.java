package android.content.pm;

public abstract class PackageManager {
    public static final String FEATURE_TELEPHONY = "android.hardware.telephony";

    public abstract boolean hasSystemFeature(String featureName);
}
