package android.content;

public class Intent {
    public static final String ACTION_SENDTO = "android.intent.action.SENDTO";

    public Intent(String action, android.net.Uri uri) {
        throw new RuntimeException("stub");
    }

    public Intent putExtra(String name, String value) {
        throw new RuntimeException("stub");
    }
}
