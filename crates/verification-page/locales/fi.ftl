number = Numerosi, jonka lopussa on { $tail }
not-your-number = Eikö tämä ole numerosi?
sandbox = Testitila: vain simuloituja puhelinnumeroita
time-left = Aikaa jäljellä:
support = Tarvitsetko apua?
language = Kieli

## Silent check by the mobile operator

start-title = Vahvista puhelinnumerosi
start-text = { $brand } haluaa vahvistaa, että tässä puhelimessa on sinun numerosi. Kytke mobiilidata päälle ja Wi-Fi pois päältä ja jatka sitten.
start-button = Vahvista tämä puhelin
start-computer-text = { $brand } haluaa vahvistaa puhelinnumerosi. Jatka puhelimella, jossa numero on käytössä:
scan-camera = Suuntaa puhelimesi kamera koodiin.
start-open = Avaa näkyviin tuleva linkki.
start-follow = Noudata puhelimen ohjeita. Tämä sivu päivittyy itsestään.
start-here = Jatka tällä laitteella
start-scan-label = Tämän sivun QR-koodi
wallet-text = { $brand } haluaa vahvistaa, että tässä puhelimessa on numerosi. Napauta painiketta ja hyväksy seuraavassa näkymässä. Wi-Fi voi jäädä päälle.
wallet-button = Vahvista puhelimella
wallet-again = Jatka napauttamalla painiketta uudelleen.
silent-title = Numeroasi vahvistetaan
silent-text = Operaattorisi vahvistaa numeroasi. Tämä kestää vain muutaman sekunnin.
continue = Jatka
other-way = Kokeile toista tapaa
stalled-title = Ei vielä vastausta
stalled-text = Operaattorisi ei ole vastannut. Yritä uudelleen tai valitse toinen tapa.
confirming-title = Melkein valmista
confirming-text = Operaattorisi on vastannut. { $brand } viimeistelee tarkistuksen.
confirming-own-text = Operaattorisi on vastannut. Enää yksi vaihe jäljellä.
confirming-elsewhere = Tee viimeinen vaihe siellä, missä aloitit. Tämä sivu päivittyy itsestään.
stalled-only-text = Operaattorisi ei ole vastannut. Tarkista, että mobiilidata on päällä, ja yritä uudelleen.
ask-whether-to-stop-title = Haluatko lopettaa tähän?
ask-whether-to-stop-text = Numeroasi ei voi vahvistaa muulla tavalla.
elsewhere-title = Jatka puhelimellasi
elsewhere-text = Numeroasi vahvistetaan puhelimellasi tai toisessa selaimessa. Tämä sivu päivittyy itsestään.
allow-cookies = Tämä vaihe vaatii evästeen, jonka selaimesi esti. Salli evästeet tällä sivulla ja yritä uudelleen.

## Text message from the user to us

text-title = Lähetä meille tekstiviesti
text-text = Lähetä alla oleva viesti sellaisenaan puhelimesta, jonka numeroa vahvistat. Tekstiviestin hinta määräytyy operaattorisi hinnaston mukaan.
text-warning = Lähetä tämä tekstiviesti vain, jos aloitit vahvistuksen itse.
text-computer-text = Lähetä meille tekstiviesti puhelimesta, jonka numeroa vahvistat. Tekstiviestin hinta määräytyy operaattorisi hinnaston mukaan.
text-open = Avaa näkyviin tuleva viesti.
text-send = Lähetä se sellaisenaan.
text-by-hand = Tai kirjoita viesti itse
text-button = Avaa viestisovellus
text-scan-label = Tekstiviestin QR-koodi
text-receiver = Vastaanottaja
text-body = Viesti
copy-receiver = Kopioi numero
copy-body = Kopioi viesti
copied = Kopioitu
copy-failed = Selaimesi esti kopioinnin. Teksti on valittu: kopioi se itse.
text-waiting = Odotetaan viestiäsi…
text-cannot = En voi lähettää tekstiviestiä
other-sender-title = Lähetä viesti toisella SIM-kortilla
other-sender-text = Tekstiviesti tuli toisesta numerosta. Lähetä se uudelleen SIM-kortilla, jonka numeron lopussa on { $tail }.
received-title = Saimme viestin
received-text = Tarkistamme sitä. Jos mitään ei tapahdu muutamassa sekunnissa, lähetä alla oleva viesti uudelleen täysin sellaisenaan.
ask-whether-to-give-up-title = Etkö voi lähettää tekstiviestiä?
ask-whether-to-give-up-text = Ilman sitä emme voi vahvistaa numeroasi.
ask-whether-to-give-up-yes = Lopeta vahvistamatta
ask-if-wrong-number-title = Eikö tämä ole numerosi?
ask-if-wrong-number-text = { $brand } haluaa vahvistaa numeron, jonka lopussa on { $tail }. Jos se ei ole sinun, lopeta tähän.
ask-if-wrong-number-yes = Tämä ei ole numeroni
ask-no = Takaisin

## SIM Swap check

sim-title = Vielä yksi tarkistus
sim-text = Kysymme operaattoriltasi, onko SIM-korttisi vaihdettu hiljattain.

## Results

done-title = Numero vahvistettu
done-text = Kiitos. Puhelinnumerosi on vahvistettu.
mismatch-title = Numeroa ei vahvistettu
mismatch-phone-text = Tässä puhelimessa on eri numero. Tarkista numero, jonka annoit palvelulle { $brand }, ja yritä uudelleen.
mismatch-text = Vastaus tuli muusta numerosta kuin siitä, jonka annoit palvelulle { $brand }. Tarkista numero ja yritä uudelleen.
failed-title = Emme voineet vahvistaa numeroasi
failed-text = Mikään vahvistustapa ei onnistunut. Palaa palveluun { $brand } ja yritä uudelleen.
given-up-title = Numeroa ei vahvistettu
given-up-text = Lopetit, ennen kuin ehdimme vahvistaa numerosi. Jos haluat yrittää uudelleen, palaa palveluun { $brand }.
wrong-number-title = Kiitos ilmoituksesta
wrong-number-text = Mitään ei vahvistettu. Palaa palveluun { $brand } ja anna numerosi.
cancelled-title = Ei enää tarpeen
cancelled-text = { $brand } on perunut tämän vahvistuksen.
expired-title = Tämä linkki on vanhentunut
expired-text = Numeroasi ei vahvistettu ajoissa. Palaa palveluun { $brand } ja aloita alusta.
return-link = Palaa palveluun { $brand }
close = Voit nyt sulkea tämän sivun.

## Errors

unknown-title = Tämä linkki on virheellinen
unknown-text = Tarkista, että avasit koko linkin, tai aloita alusta sivustolla, jolta tulit.
busy-title = Liian monta yritystä
busy-text = Odota minuutti ja yritä uudelleen.
unavailable-title = Jotain meni vikaan
unavailable-text = Tämä sivu ei ole juuri nyt käytettävissä. Yritä uudelleen minuutin kuluttua.
refused-title = Avaa sivu uudelleen
refused-text = Turvallisuussyistä voit jatkaa vain tältä sivulta.
retry = Yritä uudelleen

## Page of a single check, whose link was opened in a browser

enter-code-text = Anna tämä koodi sovelluksessa tai sivustolla, josta tulit. Koodi toimii kerran ja vanhenee pian.
device-failed-text = Operaattorisi ei voinut vahvistaa numeroasi. Palaa sovellukseen tai sivustolle, josta tulit, ja kokeile toista tapaa.
not-mobile-title = Tämä puhelin ei käytä mobiilidataa
not-mobile-text = Voimme vahvistaa numerosi vain mobiilidatan kautta. Kytke Wi-Fi pois päältä, palaa sovellukseen tai sivustolle, josta tulit, ja yritä uudelleen.
used-title = Tämä linkki on jo käytetty
other-browser-title = Aloitettu toisessa selaimessa
other-browser-text = Mitään ei vahvistettu. Jos aloitit vahvistuksen itse, palaa selaimeen, jossa aloitit. Muussa tapauksessa voit sulkea tämän sivun.
start-again-text = Palaa sovellukseen tai sivustolle, josta tulit, ja aloita alusta.
other-browser-cookies = Jos olet edelleen siinä selaimessa, salli evästeet ja aloita alusta.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Kirjaudu: { $brand }
sign-in-text = Anna matkapuhelinnumerosi. Seuraavaksi tarkistamme, että se on sinun.
sign-in-country = Maa tai alue
sign-in-choose-country = Valitse…
sign-in-number = Matkapuhelinnumero
sign-in-hint = Maatunnuksella tai ilman
sign-in-sandbox-hint = Käytä simuloitua numeroa, esimerkiksi { $example }
sign-in-privacy = Käytämme numeroasi vain kirjautumiseen palveluun { $brand }.
sign-in-discover = Käytä tätä puhelinta
sign-in-cancel = Peruuta
sign-in-enter-number = Anna numero itse
sign-in-stalled-text = Operaattorisi ei ole vastannut. Yritä uudelleen tai anna numerosi.
sign-in-invalid = Tämä ei näytä puhelinnumerolta. Tarkista se ja yritä uudelleen.
sign-in-not-supported = Emme voi vahvistaa tätä numeroa. Kokeile toista matkapuhelinnumeroa.
sign-in-too-many-attempts = Liian monta yritystä tällä numerolla. Yritä myöhemmin uudelleen tai käytä toista numeroa.
sign-in-try-later = Emme voi juuri nyt tarkistaa numeroita. Yritä uudelleen minuutin kuluttua.
sign-in-missing-country = Valitse maa tai aloita numero merkillä + ja maatunnuksella.
sign-in-ended-title = Jatka siellä, missä aloitit
sign-in-ended-text = Täällä ei ole enää tehtävää. Palaa selaimeen, jossa aloitit kirjautumisen.
sign-in-cancelled-title = Kirjautuminen peruttu
sign-in-cancelled-text = Et ole kirjautunut. Yritä uudelleen palaamalla palveluun { $brand }.
sign-in-expired-title = Tämä kesti liian kauan
sign-in-expired-text = Turvallisuutesi vuoksi sinun on aloitettava alusta. Palaa palveluun { $brand }.
sign-in-failed-text = Kirjautuminen ei onnistunut. Yritä uudelleen palaamalla palveluun { $brand }.
sign-in-refused-title = Kirjautuminen ei onnistu
sign-in-refused-text = Sovellus tai sivusto, josta tulit, lähetti virheellisen pyynnön. Palaa takaisin ja yritä uudelleen, tai pyydä apua sen tuesta.
sign-in-detail = Tietoja kehittäjille
