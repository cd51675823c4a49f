number = Numărul dvs. care se termină în { $tail }
not-your-number = Nu este numărul dvs.?
sandbox = Mod de testare: doar numere de telefon simulate
time-left = Timp rămas:
support = Aveți nevoie de ajutor?
language = Limba

## Silent check by the mobile operator

start-title = Confirmați-vă numărul de telefon
start-text = { $brand } dorește să confirme că acest telefon folosește numărul dvs. Activați datele mobile, dezactivați Wi-Fi, apoi continuați.
start-button = Confirmați acest telefon
start-computer-text = { $brand } dorește să vă confirme numărul de telefon. Continuați pe telefonul cu acest număr:
scan-camera = Îndreptați camera telefonului spre cod.
start-open = Deschideți linkul care apare.
start-follow = Urmați pașii de acolo. Această pagină se actualizează singură.
start-here = Continuați pe acest dispozitiv
start-scan-label = Cod QR pentru această pagină
wallet-text = { $brand } dorește să confirme că acest telefon are numărul dvs. Atingeți butonul, apoi acceptați pe ecranul următor. Wi-Fi poate rămâne pornit.
wallet-button = Confirmați cu telefonul
wallet-again = Atingeți din nou butonul pentru a continua.
silent-title = Vă confirmăm numărul
silent-text = Operatorul mobil vă confirmă numărul. Durează doar câteva secunde.
continue = Continuați
other-way = Încercați altă metodă
stalled-title = Încă niciun răspuns
stalled-text = Operatorul mobil nu a răspuns. Încercați din nou sau alegeți altă metodă.
confirming-title = Aproape gata
confirming-text = Operatorul mobil a răspuns. { $brand } finalizează verificarea.
confirming-own-text = Operatorul mobil a răspuns. Mai este un singur pas.
confirming-elsewhere = Finalizați acolo unde ați început. Această pagină se actualizează singură.
stalled-only-text = Operatorul mobil nu a răspuns. Verificați dacă datele mobile sunt activate, apoi încercați din nou.
ask-whether-to-stop-title = Renunțați la confirmare?
ask-whether-to-stop-text = Nu există altă metodă de a vă confirma numărul.
elsewhere-title = Continuați pe telefon
elsewhere-text = Numărul dvs. este în curs de confirmare pe telefon sau în alt browser. Această pagină se actualizează singură.
allow-cookies = Acest pas necesită un cookie pe care browserul l-a blocat. Permiteți cookie-urile pentru această pagină, apoi încercați din nou.

## Text message from the user to us

text-title = Trimiteți-ne un SMS
text-text = Trimiteți mesajul de mai jos, fără modificări, de pe telefonul pe care îl confirmați. Se aplică tariful obișnuit al operatorului pentru un SMS.
text-warning = Trimiteți acest SMS doar dacă dvs. ați început confirmarea.
text-computer-text = Trimiteți-ne un SMS de pe telefonul pe care îl confirmați. Se aplică tariful obișnuit al operatorului pentru un SMS.
text-open = Deschideți mesajul care apare.
text-send = Trimiteți-l fără modificări.
text-by-hand = Sau scrieți mesajul manual
text-button = Deschideți Mesaje
text-scan-label = Cod QR cu SMS-ul
text-receiver = Către
text-body = Mesaj
copy-receiver = Copiați numărul
copy-body = Copiați mesajul
copied = Copiat
copy-failed = Browserul a blocat copierea. Textul este selectat: copiați-l manual.
text-waiting = Vă așteptăm mesajul…
text-cannot = Nu pot trimite SMS-ul
other-sender-title = Trimiteți-l de pe cealaltă cartelă SIM
other-sender-text = SMS-ul a venit de la alt număr. Trimiteți-l din nou de pe cartela SIM al cărei număr se termină în { $tail }.
received-title = Am primit un mesaj
received-text = Îl verificăm. Dacă nu se întâmplă nimic în câteva secunde, trimiteți din nou mesajul de mai jos, fără nicio modificare.
ask-whether-to-give-up-title = Nu puteți trimite SMS-ul?
ask-whether-to-give-up-text = Fără el, nu vă putem confirma numărul.
ask-whether-to-give-up-yes = Renunțați la confirmare
ask-if-wrong-number-title = Nu este numărul dvs.?
ask-if-wrong-number-text = { $brand } dorește să confirme numărul care se termină în { $tail }. Dacă nu este al dvs., renunțați la confirmare.
ask-if-wrong-number-yes = Nu este numărul meu
ask-no = Înapoi

## SIM Swap check

sim-title = Încă o verificare
sim-text = Întrebăm operatorul mobil dacă v-a fost schimbată recent cartela SIM.

## Results

done-title = Număr confirmat
done-text = Vă mulțumim. Numărul dvs. de telefon este confirmat.
mismatch-title = Număr neconfirmat
mismatch-phone-text = Acest telefon are alt număr. Verificați numărul pe care l-ați comunicat companiei { $brand }, apoi încercați din nou.
mismatch-text = Numărul care a răspuns nu este cel pe care l-ați comunicat companiei { $brand }. Verificați numărul, apoi încercați din nou.
failed-title = Nu v-am putut confirma numărul
failed-text = Nicio metodă de confirmare nu a funcționat. Reveniți la { $brand } pentru a încerca din nou.
given-up-title = Număr neconfirmat
given-up-text = Ați renunțat înainte să vă putem confirma numărul. Reveniți la { $brand } pentru a încerca din nou.
wrong-number-title = Vă mulțumim că ne-ați anunțat
wrong-number-text = Nu s-a confirmat nimic. Reveniți la { $brand } pentru a vă introduce numărul.
cancelled-title = Confirmarea nu mai este necesară
cancelled-text = { $brand } a anulat această confirmare.
expired-title = Acest link a expirat
expired-text = Numărul dvs. nu a fost confirmat la timp. Reveniți la { $brand } pentru a începe din nou.
return-link = Înapoi la { $brand }
close = Acum puteți închide această pagină.

## Errors

unknown-title = Acest link nu este valid
unknown-text = Verificați dacă ați deschis linkul complet sau începeți din nou pe site-ul de unde ați ajuns aici.
busy-title = Prea multe încercări
busy-text = Așteptați un minut, apoi încercați din nou.
unavailable-title = A apărut o eroare
unavailable-text = Această pagină nu este disponibilă acum. Încercați din nou peste un minut.
refused-title = Deschideți din nou pagina
refused-text = Pentru siguranța dvs., puteți continua doar din această pagină.
retry = Încercați din nou

## Page of a single check, whose link was opened in a browser

enter-code-text = Introduceți acest cod în aplicația sau pe site-ul de unde ați ajuns aici. Poate fi folosit o singură dată și expiră în curând.
device-failed-text = Operatorul mobil nu v-a putut confirma numărul. Reveniți la aplicația sau site-ul de unde ați ajuns aici pentru a încerca altă metodă.
not-mobile-title = Acest telefon nu folosește date mobile
not-mobile-text = Vă putem confirma numărul doar prin date mobile. Dezactivați Wi-Fi, reveniți la aplicația sau site-ul de unde ați ajuns aici și încercați din nou.
used-title = Acest link a fost deja folosit
other-browser-title = Confirmare începută în alt browser
other-browser-text = Nu s-a confirmat nimic. Dacă dvs. ați început confirmarea, reveniți la browserul în care ați început. Altfel, puteți închide această pagină.
start-again-text = Reveniți la aplicația sau site-ul de unde ați ajuns aici pentru a începe din nou.
other-browser-cookies = Dacă este același browser, permiteți cookie-urile și începeți din nou.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Autentificare la { $brand }
sign-in-text = Introduceți numărul de mobil. Apoi vom verifica dacă vă aparține.
sign-in-country = Țară sau regiune
sign-in-choose-country = Alegeți…
sign-in-number = Număr de mobil
sign-in-hint = Cu sau fără prefixul țării
sign-in-sandbox-hint = Folosiți un număr simulat, de exemplu { $example }
sign-in-privacy = Folosim numărul doar pentru a vă autentifica la { $brand }.
sign-in-discover = Folosiți acest telefon
sign-in-cancel = Anulare
sign-in-enter-number = Introduceți numărul
sign-in-stalled-text = Operatorul dvs. de telefonie nu a răspuns. Încercați din nou sau introduceți numărul.
sign-in-invalid = Acesta nu pare un număr de telefon. Verificați-l și încercați din nou.
sign-in-not-supported = Nu putem confirma acest număr. Încercați alt număr de mobil.
sign-in-too-many-attempts = Prea multe încercări cu acest număr. Încercați mai târziu sau folosiți alt număr.
sign-in-try-later = Nu putem verifica numere în acest moment. Încercați din nou peste un minut.
sign-in-missing-country = Alegeți țara sau începeți numărul cu + și prefixul țării.
sign-in-ended-title = Continuați unde ați început
sign-in-ended-text = Aici nu mai este nimic de făcut. Reveniți la browserul în care ați început autentificarea.
sign-in-cancelled-title = Autentificare anulată
sign-in-cancelled-text = Nu sunteți autentificat. Reveniți la { $brand } pentru a încerca din nou.
sign-in-expired-title = A durat prea mult
sign-in-expired-text = Pentru siguranța dvs., trebuie să începeți din nou. Reveniți la { $brand }.
sign-in-failed-text = Nu v-am putut autentifica. Reveniți la { $brand } pentru a încerca din nou.
sign-in-refused-title = Nu vă putem autentifica
sign-in-refused-text = Aplicația sau site-ul care v-a trimis aici a făcut o cerere nevalidă. Reveniți și încercați din nou sau cereți ajutorul serviciului de asistență.
sign-in-detail = Detalii pentru dezvoltatori
