number = Ditt nummer som slutar på { $tail }
not-your-number = Inte ditt nummer?
sandbox = Testläge: endast simulerade telefonnummer
time-left = Tid kvar:
support = Behöver du hjälp?
language = Språk

## Silent check by the mobile operator

start-title = Bekräfta ditt telefonnummer
start-text = { $brand } vill bekräfta att den här telefonen har ditt nummer. Slå på mobildata, stäng av wifi och fortsätt sedan.
start-button = Bekräfta telefonen
start-computer-text = { $brand } vill bekräfta ditt telefonnummer. Fortsätt på telefonen som har det numret:
scan-camera = Rikta telefonens kamera mot koden.
start-open = Öppna länken som visas.
start-follow = Följ stegen där. Den här sidan uppdateras automatiskt.
start-here = Fortsätt på den här enheten
start-scan-label = QR-kod till den här sidan
wallet-text = { $brand } vill bekräfta att den här telefonen har ditt nummer. Tryck på knappen och godkänn på nästa skärm. Wi-Fi kan vara på.
wallet-button = Bekräfta med telefonen
wallet-again = Tryck på knappen en gång till för att fortsätta.
silent-title = Ditt nummer bekräftas
silent-text = Din mobiloperatör bekräftar ditt nummer. Det tar bara några sekunder.
continue = Fortsätt
other-way = Prova ett annat sätt
stalled-title = Inget svar ännu
stalled-text = Din mobiloperatör har inte svarat. Försök igen eller välj ett annat sätt.
confirming-title = Nästan klart
confirming-text = Din mobiloperatör har svarat. { $brand } slutför kontrollen.
confirming-own-text = Din mobiloperatör har svarat. Ett steg till, sedan är du klar.
confirming-elsewhere = Slutför där du började. Den här sidan uppdateras automatiskt.
stalled-only-text = Din mobiloperatör har inte svarat. Kontrollera att mobildata är på och försök igen.
ask-whether-to-stop-title = Vill du avbryta här?
ask-whether-to-stop-text = Det finns inget annat sätt att bekräfta ditt nummer.
elsewhere-title = Fortsätt på din telefon
elsewhere-text = Ditt nummer bekräftas på din telefon eller i en annan webbläsare. Den här sidan uppdateras automatiskt.
allow-cookies = Det här steget kräver en cookie som din webbläsare har blockerat. Tillåt cookies för den här sidan och försök igen.

## Text message from the user to us

text-title = Skicka ett sms till oss
text-text = Skicka meddelandet nedan, precis som det är, från telefonen du vill bekräfta. Din operatörs vanliga pris för sms gäller.
text-warning = Skicka bara sms:et om du själv har startat det här.
text-computer-text = Skicka ett sms till oss från telefonen du vill bekräfta. Din operatörs vanliga pris för sms gäller.
text-open = Öppna meddelandet som visas.
text-send = Skicka det precis som det är.
text-by-hand = Eller skriv meddelandet själv
text-button = Öppna Meddelanden
text-scan-label = QR-kod med sms:et
text-receiver = Till
text-body = Meddelande
copy-receiver = Kopiera nummer
copy-body = Kopiera meddelande
copied = Kopierat
copy-failed = Din webbläsare blockerade kopieringen. Texten är markerad: kopiera den själv.
text-waiting = Väntar på ditt meddelande …
text-cannot = Jag kan inte skicka sms
other-sender-title = Skicka från det andra SIM-kortet
other-sender-text = Sms:et kom från ett annat nummer. Skicka det igen med SIM-kortet vars nummer slutar på { $tail }.
received-title = Vi har fått ett meddelande
received-text = Vi kontrollerar det. Om inget händer inom några sekunder skickar du meddelandet nedan igen, precis som det är.
ask-whether-to-give-up-title = Kan du inte skicka sms?
ask-whether-to-give-up-text = Utan sms:et kan vi inte bekräfta ditt nummer.
ask-whether-to-give-up-yes = Avbryt utan att bekräfta
ask-if-wrong-number-title = Inte ditt nummer?
ask-if-wrong-number-text = { $brand } vill bekräfta numret som slutar på { $tail }. Avbryt här om det inte är ditt.
ask-if-wrong-number-yes = Det är inte mitt nummer
ask-no = Gå tillbaka

## SIM Swap check

sim-title = En kontroll till
sim-text = Vi frågar din mobiloperatör om ditt SIM-kort har bytts ut nyligen.

## Results

done-title = Numret är bekräftat
done-text = Tack! Ditt telefonnummer är bekräftat.
mismatch-title = Numret är inte bekräftat
mismatch-phone-text = Den här telefonen har ett annat nummer. Kontrollera numret du angav hos { $brand } och försök igen.
mismatch-text = Numret som svarade är inte det du angav hos { $brand }. Kontrollera numret och försök igen.
failed-title = Vi kunde inte bekräfta ditt nummer
failed-text = Inget av sätten att bekräfta det fungerade. Gå tillbaka till { $brand } och försök igen.
given-up-title = Numret är inte bekräftat
given-up-text = Du avbröt innan vi hann bekräfta ditt nummer. Gå tillbaka till { $brand } om du vill försöka igen.
wrong-number-title = Tack för att du sa till
wrong-number-text = Inget har bekräftats. Gå tillbaka till { $brand } och ange ditt nummer.
cancelled-title = Behövs inte längre
cancelled-text = { $brand } har avbrutit den här bekräftelsen.
expired-title = Den här länken har gått ut
expired-text = Ditt nummer bekräftades inte i tid. Gå tillbaka till { $brand } och börja om.
return-link = Tillbaka till { $brand }
close = Du kan stänga den här sidan nu.

## Errors

unknown-title = Den här länken är ogiltig
unknown-text = Kontrollera att du öppnade hela länken, eller börja om på webbplatsen som skickade dig hit.
busy-title = För många försök
busy-text = Vänta en minut och försök sedan igen.
unavailable-title = Något gick fel
unavailable-text = Den här sidan är inte tillgänglig just nu. Försök igen om en minut.
refused-title = Öppna sidan igen
refused-text = Av säkerhetsskäl kan du bara fortsätta från den här sidan.
retry = Försök igen

## Page of a single check, whose link was opened in a browser

enter-code-text = Ange den här koden i appen eller på webbplatsen som skickade dig hit. Den kan användas en gång och går snart ut.
device-failed-text = Din mobiloperatör kunde inte bekräfta ditt nummer. Gå tillbaka till appen eller webbplatsen som skickade dig hit och prova ett annat sätt.
not-mobile-title = Den här telefonen använder inte mobildata
not-mobile-text = Vi kan bara bekräfta ditt nummer via mobildata. Stäng av wifi, gå tillbaka till appen eller webbplatsen som skickade dig hit och försök igen.
used-title = Den här länken har redan använts
other-browser-title = Startades i en annan webbläsare
other-browser-text = Inget har bekräftats. Om du själv har startat det här går du tillbaka till webbläsaren där du började. Annars kan du stänga den här sidan.
start-again-text = Gå tillbaka till appen eller webbplatsen som skickade dig hit och börja om.
other-browser-cookies = Är du kvar i den webbläsaren? Tillåt cookies och börja om.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Logga in på { $brand }
sign-in-text = Ange ditt mobilnummer. Sedan kontrollerar vi att det är ditt.
sign-in-country = Land eller region
sign-in-choose-country = Välj…
sign-in-number = Mobilnummer
sign-in-hint = Med eller utan landsnummer
sign-in-sandbox-hint = Använd ett simulerat nummer, till exempel { $example }
sign-in-privacy = Vi använder bara ditt nummer för att logga in dig på { $brand }.
sign-in-discover = Använd den här telefonen
sign-in-cancel = Avbryt
sign-in-enter-number = Ange ditt nummer i stället
sign-in-stalled-text = Din mobiloperatör har inte svarat. Försök igen eller ange ditt nummer.
sign-in-invalid = Det här ser inte ut som ett telefonnummer. Kontrollera det och försök igen.
sign-in-not-supported = Vi kan inte bekräfta det här numret. Prova ett annat mobilnummer.
sign-in-too-many-attempts = För många försök med det här numret. Försök igen senare eller använd ett annat nummer.
sign-in-try-later = Vi kan inte kontrollera nummer just nu. Försök igen om en minut.
sign-in-missing-country = Välj ditt land eller börja numret med + och landsnumret.
sign-in-ended-title = Fortsätt där du började
sign-in-ended-text = Du behöver inte göra något mer här. Gå tillbaka till webbläsaren där du började logga in.
sign-in-cancelled-title = Inloggningen avbröts
sign-in-cancelled-text = Du är inte inloggad. Gå tillbaka till { $brand } för att försöka igen.
sign-in-expired-title = Det tog för lång tid
sign-in-expired-text = För din säkerhet måste du börja om. Gå tillbaka till { $brand }.
sign-in-failed-text = Vi kunde inte logga in dig. Gå tillbaka till { $brand } för att försöka igen.
sign-in-refused-title = Vi kan inte logga in dig
sign-in-refused-text = Appen eller webbplatsen du kom från skickade en ogiltig begäran. Gå tillbaka och försök igen, eller be dess support om hjälp.
sign-in-detail = Information för utvecklare
