package android.telephony;

/** Fake: a test sets the state. */
public class TelephonyManager {
    public int simState = 5;
    public boolean dataEnabled = true;
    public boolean forbidden;

    public int getSimState() {
        return simState;
    }

    public boolean isDataEnabled() {
        if (forbidden) {
            throw new SecurityException("READ_PHONE_STATE");
        }
        return dataEnabled;
    }
}
