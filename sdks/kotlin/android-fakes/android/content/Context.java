package android.content;

/** Fake: see {@code FakeContext} in the tests. */
public abstract class Context {
    public abstract Context getApplicationContext();

    public abstract ContentResolver getContentResolver();

    public abstract android.content.pm.PackageManager getPackageManager();

    public abstract Object getSystemService(String name);
}
