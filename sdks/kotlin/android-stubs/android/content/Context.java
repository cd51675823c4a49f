package android.content;

public abstract class Context {
    public static final String CONNECTIVITY_SERVICE = "connectivity";
    public static final String TELEPHONY_SERVICE = "phone";

    public abstract Context getApplicationContext();

    public abstract ContentResolver getContentResolver();

    public abstract android.content.pm.PackageManager getPackageManager();

    public abstract Object getSystemService(String name);

    public abstract void startActivity(Intent intent);
}
