package android.content;

/** Fake: keeps what it is given. */
public class Intent {
    public final String action;
    public final android.net.Uri data;
    public final java.util.Map<String, String> extras = new java.util.HashMap<>();

    public Intent(String action, android.net.Uri data) {
        this.action = action;
        this.data = data;
    }

    public Intent putExtra(String name, String value) {
        extras.put(name, value);
        return this;
    }
}
